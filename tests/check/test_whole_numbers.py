"""Labels, tokens, places and lengths are integers, which definitions say by an assertion on their dtype."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

OWN = """def rows(table: Tensor[V, D], tokens: Tensor[...]) -> Tensor[..., D, table.dtype]:
    assert tokens.dtype.kind != "f", "tokens are integers"
    return table[cast(tokens, i64)]

def f(t: Tensor[5, 3, f32], i: Tensor[2, DTYPE]) -> Tensor[2, 3, f32]:
    return rows(t, i)
"""


def test_a_definition_may_refuse_floats() -> None:
    """It is checked with a dtype that it takes: false for f32 is not false for every input."""
    assert not check_text(OWN.replace("DTYPE", "i32")).diagnostics
    (error,) = check_text(OWN.replace("DTYPE", "f64")).diagnostics
    assert error.code == "E0217" and "tokens are integers" in error.primary.text


def test_a_declared_float_stays_false() -> None:
    (error,) = check_text('def f(x: Tensor[N, f32]):\n    assert x.dtype.kind == "i"\n    return x\n').diagnostics
    assert error.code == "E0216"


@pytest.mark.parametrize(
    "call",
    [
        "nll(log_softmax(x), y)",
        "take(x, y, axis=0)",
        "segment_sum(x, y, 3)",
        "bincount(y, size=4)",
        "multi_margin(x, y)",
        "reverse_sequence(x, y)",
    ],
)
def test_floats_are_no_labels(call: str) -> None:
    text = f"def f(x: Tensor[4, 4, f32], y: Tensor[4, f32], n: Tensor[4, i32]):\n    return {call}\n"
    said = check_text(text).diagnostics
    assert [error.code for error in said] == ["E0217"]
    assert "takes ints" in said[0].primary.text


def test_a_table_behind_its_tokens_is_in_the_order_of_pytorch() -> None:
    text = "def f(x: Tensor[4, 4, f32], n: Tensor[4, i32]):\n    return embedding(n[:, None], x)\n"
    (said,) = check_text(text).diagnostics
    assert said.code == "E0217" and "stand in each other's place" in said.primary.text
    assert [edit.replacement for edit in said.fixes[0].edits] == ["x", "n[:, None]"]
