"""Where sizes came from: the proof forest, the steps of a message, and `tesserac why`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.commands.outcome import UsageMistake
from tesserac.commands.tracing import trace_name
from tesserac.driver.session import Session
from tesserac.types.forest import ProofForest
from tests.support.checking import check_text

PROGRAM = '''\
def block(x: Tensor[B, D, f32], w: Tensor[D, F, f32], v: Tensor[G, D, f32]) -> Tensor[B, D, f32] where F == G:
    h = relu(x @ w)
    h = h @ v
    t = h[2:]
    return h

def any_type(x):
    return x
'''


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "block.tess"
    path.write_text(PROGRAM)
    return str(path)


def why(program: str, line: int, name: str) -> str:
    return trace_name(Session(), f"{program}:{line}", name).output


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=14))
def test_a_proof_is_a_path_of_stated_equalities(pairs: list[tuple[int, int]]) -> None:
    """Same exactly if the merges connect them, and then each link is a merge as it was stated, end to end."""
    forest: ProofForest[int, int] = ProofForest()
    classes = [{number} for number in range(10)]
    for number, (left, right) in enumerate(pairs):
        assert forest.merge(left, right, number) == (classes[left] is not classes[right])
        if classes[left] is not classes[right]:
            joined = classes[left] | classes[right]
            for member in joined:
                classes[member] = joined
    for left in range(10):
        assert forest.members(left) == classes[left]
        for right in range(10):
            links = forest.explain(left, right)
            assert (links is not None) == (right in classes[left])
            at = left
            for link in links or ():
                assert link.left == at and {link.left, link.right} == set(pairs[link.reason])
                at = link.right
            assert links is None or at == right


def test_a_name_has_a_chain_for_every_dim(program: str) -> None:
    assert why(program, 2, "h") == """\
h: Tensor[B, F, f32]  (line 2)
  "B"
    line 1: declared by `x`
    line 2: x @ w : ["B", "D"] @ ["D", "F"] -> ["B", "F"]
    line 2: h = relu(x @ w) : ["B", "F"] -> ["B", "F"]
  "F"
    line 1: declared by `w`
    line 2: x @ w : ["B", "D"] @ ["D", "F"] -> ["B", "F"]
    line 2: h = relu(x @ w) : ["B", "F"] -> ["B", "F"]
    line 1: is "G", by `where F == G`
"""


def test_the_line_tells_which_value_is_meant(program: str) -> None:
    assert why(program, 2, "h").startswith("h: Tensor[B, F, f32]")
    assert why(program, 5, "h").startswith("h: Tensor[B, D, f32]")
    assert why(program, 4, "t").startswith("t: Tensor[B - 2, D, f32]  (line 4)")


def test_a_dim_tells_what_is_known_of_it(program: str) -> None:
    told = why(program, 3, "B")
    assert told.startswith("B: a dim  (line 1)\n") and told.endswith("    line 4: checked on entry: B >= 2\n")
    assert 'is "F", by `where F == G`' in why(program, 3, "G")


@pytest.mark.parametrize(
    ("line", "name", "problem"),
    [(5, "nobody", "no name `nobody`"), (6, "x", "in no function"), (8, "x", "only a call")],
)
def test_what_cannot_be_told_is_said(program: str, line: int, name: str, problem: str) -> None:
    with pytest.raises(UsageMistake, match=problem):
        why(program, line, name)


def test_a_place_is_a_file_and_a_line(program: str) -> None:
    with pytest.raises(UsageMistake, match="FILE:LINE"):
        trace_name(Session(), f"{program}:main", "h")


def test_a_message_walks_the_equalities() -> None:
    text = """
def f(x: Tensor[A, f32], y: Tensor[B, f32], z: Tensor[C, f32], v: Tensor[E, f32]) where C == B, B == A:
    return z + v
"""
    [diagnostic] = check_text(text).diagnostics
    assert [step.text for step in diagnostic.because] == [
        '"C" is "B": `where C == B`',
        '"B" is "A": `where B == A`',
    ]


def test_a_message_has_four_steps_at_most() -> None:
    names = [f"A{number}" for number in range(9)]
    facts = ", ".join(f"{a} == {b}" for a, b in zip(names[1:], names, strict=False))
    parameters = ", ".join(f"x{number}: Tensor[{name}, f32]" for number, name in enumerate(names))
    [diagnostic] = check_text(f"def f({parameters}, y: Tensor[E, f32]) where {facts}:\n    return x8 + y\n").diagnostics
    assert len(diagnostic.because) == 4


CALLS = '''\
def pair(a: Tensor[M, f32], b: Tensor[N, f32]) -> Tensor[2*M, f32] where M == N:
    return concat([a, b], axis=0)

def fourth(c: Tensor[P, f32]) -> Tensor[f32]:
    return c[3]

def around(c: Tensor[Q, f32]) -> Tensor[f32]:
    return fourth(c)

def fits(s: Tensor[K, f32], t: Tensor[L, f32]) -> (Tensor[2*K, f32], Tensor[f32]) where K == L:
    return pair(s, t), around(s)
'''


def test_a_chain_walks_through_a_call() -> None:
    """Sizes of the caller, by arguments to the callee's names, by its facts to the other, and the caller's facts."""
    text = f"""{CALLS}
def wrong(s: Tensor[A, f32], t: Tensor[B, f32], u: Tensor[C, f32]) where B == C:
    return pair(s, relu(t))
"""
    [diagnostic] = check_text(text).diagnostics
    assert [step.text for step in diagnostic.because] == [
        '"A" is "M" of `pair`: `s` gives it',
        '"M" of `pair` is "N" of `pair`: `pair` demands it',
        '"N" of `pair` is "B": `relu(t)` gives it',
        '"B" is "C": `where B == C`',
    ]


def test_a_demand_is_followed_through_the_calls_that_pass_it_on() -> None:
    [diagnostic] = check_text(f"{CALLS}\ndef wrong(w: Tensor[3, f32]):\n    return around(w)\n").diagnostics
    assert diagnostic.title == "`Q >= 4` does not hold in this call"
    assert [label.text for label in diagnostic.secondary] == ["demanded here"]
    assert [step.text for step in diagnostic.because] == [
        '"Q" of `around` is 3: `w` gives it',
        "`fourth` called there needs `P >= 4`",
        "`w` is declared `Tensor[3, f32]`",
    ]


def test_what_the_user_wrote_goes_before_the_library() -> None:
    """Five steps: the one inside the library is left out, wherever it stands."""
    from tesserac.base.source import Span
    from tesserac.check.provenance.chains import Chain
    from tesserac.check.state.body import Body
    from tesserac.diag.codes.shapes import E0309
    from tesserac.diag.sink import Sink

    sink = Sink()
    body = Body(check_text(CALLS).checker, sink, "f")
    chain = Chain(body)
    for number, file in enumerate(("a.tess", "stdlib/prelude.tess", "a.tess", "a.tess", "a.tess")):
        chain.add(str(number), Span(file, number, number + 1))
    chain.show(sink.error(E0309, at=Span("a.tess", 0, 1), fact="N >= 0"))
    assert [step.text for step in sink.diagnostics[0].because] == ["0", "2", "3", "4"]


def test_why_tells_what_a_size_is_called_where_it_is_passed(tmp_path: Path) -> None:
    path = tmp_path / "calls.tess"
    path.write_text(CALLS)
    assert why(str(path), 11, "K") == """\
K: a dim  (line 10)
  "K"
    line 10: declared here
    line 10: the same dim here
    line 10: the same dim here
    line 10: is "L", by `where K == L`
    line 11: is "M" of `pair`: `s` gives it
    line 11: is "Q" of `around`: `s` gives it
    line 11: checked on entry: K >= 4
    line 8: since `Q >= 4` is needed there
    line 5: since `P >= 4` is needed there
"""
