"""Expressions, types and strings as trees."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tesserac.syntax.walk import descendants
from tests.support.parsing import expression, function, short

# ---------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("-a ** -b", "(- (a ** (- b)))"),
        ("a ** b ** c", "(a ** (b ** c))"),
        ("a @ b * c / d // e % f", "(((((a @ b) * c) / d) // e) % f)"),
        ("A ∘ B @ x", "((A ∘ B) @ x)"),
        ("A + B ∘ C", "(A + (B ∘ C))"),
        ("not a and b or c", "(((not a) and b) or c)"),
        ("a | b ^ c & d << e + f", "(a | (b ^ (c & (d << (e + f)))))"),
        ("~a + +b", "((~ a) + (+ b))"),
        ("not a == b", "(not Comparison(a, [ComparisonLink('==', b)]))"),
        ("a < b <= c", "Comparison(a, [ComparisonLink('<', b) ComparisonLink('<=', c)])"),
        ("(a < b) < c", "Comparison(Comparison(a, [ComparisonLink('<', b)]), [ComparisonLink('<', c)])"),
        ("a is not None", "Comparison(a, [ComparisonLink('is not', None)])"),
        ("a not in b is c", "Comparison(a, [ComparisonLink('not in', b) ComparisonLink('is', c)])"),
        ("a if b else c if d else e", "Conditional(a, b, Conditional(c, d, e))"),
        ("lambda: 0", "Lambda([], 0)"),
        ("lambda x, y=1: x + y", "Lambda([Parameter('x', None, None, False) Parameter('y', None, 1, False)], (x + y))"),
        ("lambda x: x if x else 0", "Lambda([Parameter('x', None, None, False)], Conditional(x, x, 0))"),
        ("f(a, b=c,)", "Call(f, [a b=c])"),
        ("a.b(c)[d].e", "Attribute(Subscript(Call(Attribute(a, 'b'), [c]), [d]), 'e')"),
        ("A.H", "Attribute(A, 'H')"),
        ("f()()", "Call(Call(f, []), [])"),
        ("()", "TupleExpr([])"),
        ("(a,)", "TupleExpr([a])"),
        ("a, b,", "TupleExpr([a b])"),
        ("((a))", "a"),
        ("[]", "ListExpr([])"),
        ("[a, b,]", "ListExpr([a b])"),
        ("{}", "DictExpr([])"),
        ('{"a": 1, b: 2}', "DictExpr([DictEntry('a', 1) DictEntry(b, 2)])"),
        (
            "[x for x in y if a if b]",
            "ListComprehension(x, [ComprehensionClause(x, y, [a b])])",
        ),
        (
            "[x for a, b in y for x in a]",
            "ListComprehension(x, [ComprehensionClause(TupleExpr([a b]), y, []) ComprehensionClause(x, a, [])])",
        ),
        ("{k: v for k in ks}", "DictComprehension(DictEntry(k, v), [ComprehensionClause(k, ks, [])])"),
        ("sum(b(x) for b in bs)", "Call(sum, [ListComprehension(Call(b, [x]), [ComprehensionClause(b, bs, [])])])"),
        ("(i for i in s)", "ListComprehension(i, [ComprehensionClause(i, s, [])])"),
        ("x[:]", "Subscript(x, [Slice(None, None, None)])"),
        ("x[1:, :2, ::3]", "Subscript(x, [Slice(1, None, None) Slice(None, 2, None) Slice(None, None, 3)])"),
        ("x[a:b:c, ..., None]", "Subscript(x, [Slice(a, b, c) ... None])"),
        ("x[i,]", "Subscript(x, [i])"),
        ("x[-1]", "Subscript(x, [(- 1)])"),
        ("True, False, None", "TupleExpr([True False None])"),
        ("1_000", "1000"),
        ("0xff, 0o17, 0b101, 00", "TupleExpr([255 15 5 0])"),
        ("1.5, .5, 2., 1e-5, 1_0.0", "TupleExpr([1.5 .5 2. 1e-5 1_0.0])"),
        ("α_1 + переменная", "(α_1 + переменная)"),
        ("struct + param * test - where / uses", "((struct + (param * test)) - (where / uses))"),
        ("fn(x)", "Call(fn, [x])"),
    ],
)
def test_expression(text: str, tree: str) -> None:
    assert short(expression(text)) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("bf16 @accum(f32)", "(bf16 @ Call(accum, [f32]))"),
        ("fp8_e4m3 @accum(f32) @saturate", "((fp8_e4m3 @ Call(accum, [f32])) @ saturate)"),
        ("Tensor[B*H, S, D/heads, f32]", "Subscript(Tensor, [(B * H) S (D / heads) f32])"),
        ('Tensor["D", "3*D", bf16]', "Subscript(Tensor, ['D' '3*D' bf16])"),
        ("Tensor[..., N, x.dtype]", "Subscript(Tensor, [... N Attribute(x, 'dtype')])"),
        ("T | None", "(T | None)"),
        ("fn(A, B) -> C", "FunctionType([A B], C)"),
        ("fn(A) -> fn(B) -> C", "FunctionType([A], FunctionType([B], C))"),
        ("(fn(A) -> B) | None", "(FunctionType([A], B) | None)"),
        ("fn(A) -> B | None", "FunctionType([A], (B | None))"),
        ("i8 @scale(axis=0)", "(i8 @ Call(scale, [axis=0]))"),
        (
            "Operator[Din, Dout, T = f32, P = T @accum(f32)]",
            "Subscript(Operator, [Din Dout T=f32 P=(T @ Call(accum, [f32]))])",
        ),
        ("(MLP[D], Tensor[f32])", "TupleExpr([Subscript(MLP, [D]) Subscript(Tensor, [f32])])"),
    ],
)
def test_types_are_expressions(text: str, tree: str) -> None:
    parameter = function(f"def f(x: {text}): pass").parameters[0]
    assert short(parameter.annotation) == tree
    assert short(function(f"def f(x) -> {text}: pass").returns) == tree


# -------------------------------------------------------------------------------------------------- strings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a"', "a"),
        ("'it''s'", "its"),
        (r'"\n\t\\\"\x41\u2218\101\0"', '\n\t\\"A∘A\0'),
        (r'"\N{BULLET}"', "•"),
        (r'r"\n\d"', r"\n\d"),
        ('"""a\nb"c"""', 'a\nb"c'),
        ('"a\\\nb"', "ab"),
        ('("a"\n "b")', "ab"),
        ("''", ""),
        ('""""a"""', '"a'),
    ],
)
def test_string(text: str, value: str) -> None:
    node = expression(text)
    assert isinstance(node, ast.StringLiteral)
    assert node.value == value


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('f"x"', "FString(['x'])"),
        ('f"{x}"', "FString([Interpolation(x, '', '', '')])"),
        ('f"a{x:.3f}b"', "FString(['a' Interpolation(x, '', '', '.3f') 'b'])"),
        ('f"{x!r:>8}"', "FString([Interpolation(x, '', 'r', '>8')])"),
        ('f"{x=}"', "FString([Interpolation(x, 'x=', '', '')])"),
        ('f"{x + 1 = :d}"', "FString([Interpolation((x + 1), 'x + 1 = ', '', 'd')])"),
        ('f"{{}}"', "FString(['{}'])"),
        ('f"{a != b}"', "FString([Interpolation(Comparison(a, [ComparisonLink('!=', b)]), '', '', '')])"),
        ("f\"{d['k']:x}\"", "FString([Interpolation(Subscript(d, ['k']), '', '', 'x')])"),
        ('f"{x[1:2]}"', "FString([Interpolation(Subscript(x, [Slice(1, 2, None)]), '', '', '')])"),
        ('f"{({1: 2})[1]}"', "FString([Interpolation(Subscript(DictExpr([DictEntry(1, 2)]), [1]), '', '', '')])"),
        ('rf"\\d{x}"', "FString(['\\\\d' Interpolation(x, '', '', '')])"),
        ('f"""{\nx\n}"""', "FString([Interpolation(x, '', '', '')])"),
        ('"a" f"{x}" "b"', "FString(['a' Interpolation(x, '', '', '') 'b'])"),
    ],
)
def test_f_string(text: str, parts: str) -> None:
    assert short(expression(text)) == parts


def test_the_span_in_a_hole_is_its_place_in_the_file() -> None:
    source = SourceFile("t.tess", 'y = 1\nx = f"ab{ cde }"\n')
    hole = next(
        node
        for item in parse_module(source).module.items
        for node in descendants(item)
        if isinstance(node, ast.Interpolation)
    )
    assert source.slice(hole.value.span) == "cde"
    assert source.slice(hole.span) == "{ cde }"
