"""Sizes of a call: what is solved is right, what conflicts is reported with both reasons."""

from __future__ import annotations

from operator import eq

from hypothesis import given
from hypothesis import strategies as st

from tesserac.types.dims import Dim, parse_dim
from tesserac.types.unify import DimSolver


def solver(*symbols: str) -> DimSolver[str]:
    return DimSolver(frozenset(symbols), eq)


def test_bare_symbols_bind_and_keep_their_reason() -> None:
    solve = solver("B", "D")
    solve.require(parse_dim("B"), parse_dim("N"), "x, first dim")
    solve.require(parse_dim("D"), parse_dim("512"), "x, last dim")
    assert solve.finish() == frozenset()
    assert solve.values() == {"B": Dim.sym("N"), "D": Dim.const(512)}
    assert solve.bound["D"].reason == "x, last dim"


def test_a_conflict_has_both_reasons() -> None:
    solve = solver("H")
    solve.require(parse_dim("H"), parse_dim("2048"), "up")
    solve.require(parse_dim("H"), parse_dim("1024"), "down")
    [conflict] = solve.conflicts
    assert (conflict.bound, conflict.found, conflict.reason) == (Dim.const(2048), Dim.const(1024), "down")
    [(name, cause)] = conflict.causes
    assert (name, cause.reason) == ("H", "up")


def test_the_order_of_arguments_does_not_matter() -> None:
    for order in ((0, 1), (1, 0)):
        pairs = [("D/h", "N/8"), ("h", "8")]
        solve = solver("D", "h")
        for place in order:
            pattern, found = pairs[place]
            solve.require(parse_dim(pattern), parse_dim(found), pattern)
        assert solve.finish() == frozenset()
        assert solve.values()["D"] == Dim.sym("N")


def test_solving_asks_for_a_whole_quotient() -> None:
    solve = solver("D")
    solve.require(parse_dim("3*D"), parse_dim("N"), "x")
    solve.finish()
    assert solve.values() == {"D": parse_dim("N/3")}
    assert solve.divisions == [(Dim.const(3), Dim.sym("N"), "x")]


def test_what_nothing_determines_stays_open() -> None:
    solve = solver("B", "H")
    solve.require(parse_dim("B*H"), parse_dim("N"), "x")
    assert solve.finish() == {"B", "H"}


@given(st.integers(1, 9), st.integers(-5, 5), st.integers(0, 50))
def test_linear_sizes_are_solved(factor: int, offset: int, value: int) -> None:
    solve = solver("D")
    pattern = Dim.sym("D") * factor + offset
    solve.require(pattern, Dim.const(factor * value + offset), "x")
    assert solve.finish() == frozenset()
    assert solve.values() == {"D": Dim.const(value)}
    assert solve.conflicts == []
