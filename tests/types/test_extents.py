"""How large sizes get while loops count: never less than in any iteration, and not more than their ends allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.types.dims import ZERO, Dim, parse_dim
from tesserac.types.extents import constant_bound, largest
from tests.support.sampling import examples

BLOCKS = (ZERO, parse_dim("ceil_div(N, 32)"))
INSIDE = (ZERO, parse_dim("min(32, N - 32*t)"))
LEAVES = st.sampled_from(["N", "M", "t", "c", "32*t", "N - 32*t", "c*t", "1", "7"])
SIZES = st.recursive(
    LEAVES,
    lambda inner: st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner)
    | st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner)
    | st.builds("{}({}, {})".format, st.sampled_from(["ceil_div", "floor_div"]), inner, st.integers(1, 64)),
    max_leaves=5,
)


@given(SIZES, st.integers(0, 100), st.integers(0, 100))
@examples(200)
def test_no_iteration_needs_more(text: str, n: int, m: int) -> None:
    size = parse_dim(text)
    most = largest(size, {"c": [INSIDE], "t": [BLOCKS]})
    if most is None:
        return
    limit = most.evaluate({"N": n, "M": m})
    for t in range(BLOCKS[1].evaluate({"N": n})):
        for c in range(INSIDE[1].evaluate({"N": n, "t": t})):
            assert size.evaluate({"N": n, "M": m, "t": t, "c": c}) <= limit


@pytest.mark.parametrize(
    ("size", "limit"),
    [
        ("N - 32*t", 100),
        ("N - min(32, N - 32*t) - 32*t", 96),  # one term falls with t, the other grows
        ("N - c - 32*t - 1", 99),
        ("min(32, N - 32*t) - c - 1", 31),
        ("32*t*(N - 32*t)", 96 * 100),
        ("ceil_div(N - 32*t, 4096)", 1),  # as sum of a quotient that grows and of -t
        ("12*ceil_div(N + 11*min(32*t + 32, N), 12) - 12*min(32*t + 32, N)", 72),  # N - min(32*t + 32, N) in whole 12
        ("min(5, ceil_div(min(32*t + 32, N) - 32*t, 4096))", 1),
        ("(ceil_div(min(32*t + 32, N) - 32*t, 4096)) // 32", 0),
        ("min(floor_div(N, t + 1) - c*t, N)", 100),  # of the first nothing is known
        ("2*min(floor_div(N, t + 1) - c*t, N)*min(32, N - 32*t)", 2 * 100 * 32),
        ("64*ceil_div(min(floor_div(N, t + 1) - c*t, N), 64)", 128),
    ],
)
def test_blocks_that_shrink_have_memory(size: str, limit: int) -> None:
    most = largest(parse_dim(size), {"c": [INSIDE], "t": [BLOCKS]})
    assert most is not None and most.evaluate({"N": 100}) == limit


def test_a_counter_of_an_inner_and_a_later_loop() -> None:
    """The later one is met first: what the inner loop then says of it is bounded in a second round."""
    most = largest(parse_dim("c + t"), {"t": [BLOCKS], "c": [INSIDE]})
    assert most is not None and most.symbols() == {"N"}
    assert largest(parse_dim("c"), {"t": [(ZERO, parse_dim("c"))], "c": [(ZERO, parse_dim("t"))]}) is None


def test_a_part_that_is_never_larger_than_a_number() -> None:
    assert constant_bound(parse_dim("min(32, N - 32*t)")) == 32
    assert constant_bound(Dim.const(5)) == 5
    assert constant_bound(parse_dim("N")) is None and constant_bound(parse_dim("max(32, N)")) is None
