"""A function of the library with arguments that it does not take is a mistake of the call: no message quotes the
library as if it were to change, and each says which argument it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.render import apply_edits
from tesserac.driver.session import Session
from tesserac.modules.library import library_sources, load_library
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module

_OTHERS = {"int": "1", "Axis": "1", "float": "0.5"}


def _calls(element: str, rank: int | None) -> Iterator[str]:
    """A call of each public function whose arguments are tensors and numbers, its tensors all of one element; the rank
    is what the signature says, two at least, or the one given."""
    for source in library_sources(load_library()).values():
        for item in parse_module(source).module.items:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                call = _call(source, item, element, rank)
                if call is not None:
                    yield call


def _call(source: SourceFile, item: ast.FunctionDef, element: str, rank: int | None) -> str | None:
    parameters, arguments = [], []
    for number, parameter in enumerate(p for p in item.parameters if p.default is None):
        span = parameter.annotation.span if parameter.annotation is not None else None
        text = source.text[span.start : span.end] if span is not None else "Tensor"
        if text.startswith("Tensor"):
            dims = ["4"] * (max(2, text.count(",")) if rank is None else rank)
            parameters.append(f"p{number}: Tensor[{', '.join([*dims, element])}]")
        elif text not in _OTHERS:
            return None
        arguments.append(f"{parameter.name}={_OTHERS.get(text, f'p{number}')}")
    return f"({', '.join(parameters)}):\n    return {item.name}({', '.join(arguments)})\n" if parameters else None


def _said(calls: list[str]) -> tuple[SourceFile, tuple[Diagnostic, ...]]:
    source = SourceFile("own.tess", "\n".join(f"def f{number}{call}" for number, call in enumerate(calls)))
    return source, Session().check(source).diagnostics


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("element", "rank"), [("i32", None), ("f32", 0)])
def test_what_the_library_does_not_take_is_told_at_the_call(element: str, rank: int | None) -> None:
    calls = list(_calls(element, rank))
    source, said = _said(calls)
    assert len(calls) > 100
    assert len(said) > 50
    for diagnostic in said:
        assert diagnostic.primary.span.file == source.path, diagnostic
        if diagnostic.code == "E0217":
            assert not diagnostic.secondary, diagnostic
            assert diagnostic.because[0].span.file.startswith("stdlib/"), diagnostic


@pytest.mark.parametrize(
    "call",
    ["softmax(x, axis=0)", "gelu(x)", "layernorm(x)", "cosine_similarity(x, x)", "inv(x)", "mse(x, cast(x, i32))"],
)
def test_ints_where_floats_are_taken_are_named(call: str) -> None:
    _, said = _said([f"(x: Tensor[4, 4, i32]):\n    return {call}\n"])
    assert [d.primary.text.partition(":")[0].partition(",")[0] for d in said] == ["`x` is i32"]
    assert said[0].primary.text.endswith("takes floats")


def test_the_cast_that_is_proposed_mends_the_call() -> None:
    source, said = _said(["(x: Tensor[4, 4, i32]):\n    return softmax(x, axis=0)\n"])
    mended = SourceFile(source.path, apply_edits(source.text, said[0].fixes[0].edits))
    assert "softmax(cast(x, f32), axis=0)" in mended.text
    assert not Session().check(mended).diagnostics


def test_a_function_of_the_user_is_shown() -> None:
    _, said = _said(["(x: Tensor[4, i32]):\n    return half(x)\n\ndef half(x: Tensor):\n    return x * 0.5\n"])
    assert [label.span.file for label in said[0].secondary] == ["own.tess"]


@pytest.mark.parametrize(
    ("element", "call", "number"),
    [
        ("bool", "pad(x, 1, value=2)", "`2`"),
        ("bool", "pad(x, 1, value=1.0)", "`1.0`"),
        ("f32", "pad(x, 1, value=True)", "`True`"),
        ("u8", "pad(x, 1, axis=0, value=300)", "`300`"),
        ("i32", "clip(x, 0.5, 3)", "`0.5`"),
    ],
)
def test_a_number_that_no_element_can_be_is_named(element: str, call: str, number: str) -> None:
    _, said = _said([f"(x: Tensor[4, 4, {element}]):\n    return {call}\n"])
    assert [(d.code, d.title.partition(" cannot be ")) for d in said] == [
        ("E0403", (number, " cannot be ", f"{'an' if element[0] in 'fi' else 'a'} {element}"))
    ]


@pytest.mark.parametrize(
    ("parameters", "wrong", "right"),
    [
        ("x: Tensor[4, f32]", "x.view(i32)", "bitcast(x, i32)"),
        ("x: Tensor[4, f32]", "view(x * 2.0, dtype=i32)", "bitcast(x * 2.0, i32)"),
        ("x: Tensor[8, 4, 1, f32], y: Tensor[6, f32]", "x * y", "x * y[None, None, :]"),
    ],
)
def test_the_last_fix_mends_it(parameters: str, wrong: str, right: str) -> None:
    source, said = _said([f"({parameters}):\n    return {wrong}\n"])
    mended = SourceFile(source.path, apply_edits(source.text, said[0].fixes[-1].edits))
    assert right in mended.text
    assert not Session().check(mended).diagnostics


def test_queries_of_one_head_do_not_lose_the_names_of_sizes() -> None:
    call = "scaled_dot_product_attention(q, k, k)"
    _, said = _said([f"(q: Tensor[5, 8, f32], k: Tensor[6, 7, f32]):\n    return {call}\n"])
    assert [(d.code, d.title) for d in said] == [("E0307", '"D" is 8 and 7 in one call')]


@pytest.mark.parametrize("call", ["cumsum(x, axis=(0, 1))", "sort(x, axis=(0, 1))", "layernorm(x, axis=(0, 1))"])
def test_one_dim_is_meant_where_several_are_named(call: str) -> None:
    _, said = _said([f"(x: Tensor[4, 4, f32]):\n    return {call}\n"])
    assert [label.text for label in said[0].secondary] == ["this is one dim here, not 2"]


def test_what_a_function_sees_around_it_is_no_argument() -> None:
    text = "(x: Tensor[N, f32], y: Tensor[N, i32]):\n    def g(v):\n        return v * y\n    return g(x)\n"
    _, said = _said([text])
    assert not any("`g` is" in step.text for diagnostic in said for step in diagnostic.because)
