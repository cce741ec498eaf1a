"""The surface of the language: each form parses to the tree it should, with the spans it should."""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path

import pytest

from tesserac.base.source import SourceFile, Span
from tesserac.syntax import ast
from tesserac.syntax.build import makers
from tesserac.syntax.dump import dump
from tesserac.syntax.parse import parse_module
from tesserac.syntax.walk import children, descendants, field_names
from tests.support.parsing import body, function, items, parse, short
from tests.support.paths import CASES, ROOT

# ----------------------------------------------------------------------------------------------- statements


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x", "[ExpressionStatement(x)]"),
        ("x = y = 1", "[Assignment([x y], 1)]"),
        ("a, (b, c) = t", "[Assignment([TupleExpr([a TupleExpr([b c])])], t)]"),
        ("x[i], m.w = 1, 2", "[Assignment([TupleExpr([Subscript(x, [i]) Attribute(m, 'w')])], TupleExpr([1 2]))]"),
        ("x: T", "[AnnotatedAssignment(x, T, None)]"),
        ("x: T = 1, 2", "[AnnotatedAssignment(x, T, TupleExpr([1 2]))]"),
        ("x[i] += 1", "[AugmentedAssignment(Subscript(x, [i]), '+', 1)]"),
        ("x **= 2; x //= 3; x @= m", None),
        ("a = 1; b = 2;", "[Assignment([a], 1) Assignment([b], 2)]"),
        ("return", "[Return(None)]"),
        ("return a, b", "[Return(TupleExpr([a b]))]"),
        ('assert c, "text"', "[Assert(c, 'text')]"),
        ("if a: b", "[If(a, [ExpressionStatement(b)], [])]"),
        (
            "if a: pass\nelif b: pass\nelse: pass",
            "[If(a, [Pass()], [If(b, [Pass()], [Pass()])])]",
        ),
        ("for i in range(3): continue", "[For(i, Call(range, [3]), [Continue()])]"),
        ("for i, j in a, b:\n    break", "[For(TupleExpr([i j]), TupleExpr([a b]), [Break()])]"),
        ("while not done: pass", "[While((not done), [Pass()])]"),
        ("with (a,\n    b): pass", "[With([a b], [Pass()])]"),
        ("with device(gpu), prefetch(c): pass", "[With([Call(device, [gpu]) Call(prefetch, [c])], [Pass()])]"),
        (
            "def g(y): return y",
            "[FunctionDef([], 'g', [Parameter('y', None, None, False)], None, [], None, None, [Return(y)])]",
        ),
        ("...", "[ExpressionStatement(...)]"),
        ("param = 1; test(param); struct[0] = where; buffer = 2", None),
        ("x = a \\\n    + b", "[Assignment([x], (a + b))]"),
        ("x = (a\n+ b)  # comment\n# more", "[Assignment([x], (a + b))]"),
    ],
)
def test_statement(text: str, tree: str | None) -> None:
    statements = body(text)
    if tree is not None:
        assert short(statements) == tree


def test_blocks_end_where_the_indentation_does() -> None:
    (loop, after) = body("for i in r:\n    if i:\n        x\n\n        y\n    z\nlast")
    assert isinstance(loop, ast.For)
    assert short(loop.body) == ("[If(i, [ExpressionStatement(x) ExpressionStatement(y)], []) ExpressionStatement(z)]")
    assert short(after) == "ExpressionStatement(last)"


# ---------------------------------------------------------------------------------------- functions and items


def test_signature() -> None:
    node = function(
        '''@jit @kernel.autotune(space=dict(BM=[64]), budget_ms=180)
@export(donate=(m,))
def f(x, y: T = 1, *, lr: f32 = 0.1, heads: int) -> R where D % heads == 0, F == H uses random, io:
    """Doc."""
    return x
'''
    )
    assert [short(d.expression) for d in node.decorators] == [
        "jit",
        "Call(Attribute(kernel, 'autotune'), [space=Call(dict, [BM=ListExpr([64])]) budget_ms=180])",
        "Call(export, [donate=TupleExpr([m])])",
    ]
    assert [(p.name, short(p.annotation), short(p.default), p.keyword_only) for p in node.parameters] == [
        ("x", "None", "None", False),
        ("y", "T", "1", False),
        ("lr", "f32", "0.1", True),
        ("heads", "int", "None", True),
    ]
    assert short(node.returns) == "R"
    assert [short(fact) for fact in node.where] == [
        "Comparison((D % heads), [ComparisonLink('==', 0)])",
        "Comparison(F, [ComparisonLink('==', H)])",
    ]
    assert node.uses is not None
    assert [name.id for name in node.uses] == ["random", "io"]
    assert node.doc == "Doc."
    assert short(node.body) == "[Return(x)]"


def test_uses_none_is_not_the_same_as_no_uses() -> None:
    assert function("def f() uses none: pass").uses == ()
    assert function("def f(): pass").uses is None
    assert function("def f() where N > 0: pass").uses is None


def test_where_and_uses_are_names_elsewhere() -> None:
    node = function("def where(uses: where, where=uses) -> where where where > uses uses where: return where(uses)")
    assert node.name == "where"
    assert short(node.returns) == "where"
    assert short(node.where) == "[Comparison(where, [ComparisonLink('>', uses)])]"
    assert node.uses is not None
    assert [name.id for name in node.uses] == ["where"]


def test_struct() -> None:
    (node,) = items(
        '''struct MLP[D, H]:
    """Two layers."""
    w1: Tensor[D, H, f32] = normal(D, H) * 0.1
    b: Tensor[H, f32]

    def apply(self, x): return x @ self.w1
    pass
'''
    )
    assert isinstance(node, ast.StructDef)
    assert (node.name, [p.id for p in node.parameters], node.doc) == ("MLP", ["D", "H"], "Two layers.")
    assert [(f.name, short(f.init)) for f in node.fields] == [
        ("w1", "(Call(normal, [D H]) * 0.1)"),
        ("b", "None"),
    ]
    assert [m.name for m in node.methods] == ["apply"]


def test_struct_without_parameters_on_one_line() -> None:
    (node,) = items("struct Empty: ...")
    assert isinstance(node, ast.StructDef)
    assert (node.parameters, node.fields, node.methods) == ((), (), ())


def test_other_items() -> None:
    text = '''"""The module."""
import tessera.nn as nn, numpy
from tessera import op, dist as d
from ..lib.nn import (a, b as c,)
from . import x
half = bf16 @accum(f32)
N: int = 3
a, b = 1, 2; c = d = 4
param W: Tensor[D, 3*D, half]
param b: Tensor[D] = zeros(D)
test "it works":
    assert True
param = 1
test = struct = param
'''
    module = parse(text).module
    assert parse(text).diagnostics == ()
    assert module.doc == "The module."
    shown = [short(item) for item in module.items]
    assert shown == [
        "Import([ImportedModule(ModulePath(0, ['tessera' 'nn']), nn) ImportedModule(ModulePath(0, ['numpy']), None)])",
        "FromImport(ModulePath(0, ['tessera']), [ImportedName(op, None) ImportedName(dist, d)])",
        "FromImport(ModulePath(2, ['lib' 'nn']), [ImportedName(a, None) ImportedName(b, c)])",
        "FromImport(ModulePath(1, []), [ImportedName(x, None)])",
        "ConstDef([half], None, (bf16 @ Call(accum, [f32])))",
        "ConstDef([N], int, 3)",
        "ConstDef([TupleExpr([a b])], None, TupleExpr([1 2]))",
        "ConstDef([c d], None, 4)",
        "ParamDecl('W', Subscript(Tensor, [D (3 * D) half]), None)",
        "ParamDecl('b', Subscript(Tensor, [D]), Call(zeros, [D]))",
        "TestBlock('it works', [Assert(True, None)])",
        "ConstDef([param], None, 1)",
        "ConstDef([test struct], None, param)",
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "\ufeffx = 1", "x = 1\r\ny = 2\r\n", "\f\nx = 1"])
def test_files_with_little_in_them(text: str) -> None:
    assert len(items(text)) == text.count("=")


# ------------------------------------------------------------------------------------- invariants of all trees


def _programs() -> list[Path]:
    return sorted((CASES / "seeds").glob("*.tess"))


@pytest.mark.parametrize("path", _programs(), ids=lambda path: path.stem)
def test_spans_nest_and_fields_have_their_types(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    for item in parse_module(source).module.items:
        for node in descendants(item):
            assert node.span.file == source.path
            assert node.span.start < node.span.end
            assert source.slice(node.span) == source.slice(node.span).strip()
            assert all(node.span.start <= c.span.start <= c.span.end <= node.span.end for c in children(node))
            for name, kind in typing.get_type_hints(type(node)).items():
                assert _is_a(getattr(node, name), kind), (type(node).__name__, name)


def _is_a(value: object, kind: object) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, option) for option in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(item, arguments[0]) for item in value)
    assert isinstance(kind, type)
    return isinstance(value, kind)


def test_name_spans_cover_the_name() -> None:
    source = SourceFile("t.tess", "@jit\ndef f(xy: T, *, z=1):\n    return xy.abc + g(kw=1)\n")
    for item in parse_module(source).module.items:
        for node in descendants(item):
            for field in ("name", "op"):
                span = getattr(node, f"{field}_span", None)
                if isinstance(span, Span) and getattr(node, field) is not None:
                    assert source.slice(span) == getattr(node, field)


def test_rules_and_classes_have_the_same_names() -> None:
    """A rule that is no AST class makes a tuple or part of a node; a class without a rule is made in Python."""
    classes = {
        name
        for name, cls in inspect.getmembers(ast, inspect.isclass)
        if issubclass(cls, ast.Node) and cls is not ast.Node
    }
    rules = {"".join(word.title() for word in action.split("_")) for action in makers()}
    made_in_python = {
        "BoolLiteral", "ConstDef", "FString", "FieldDef", "FloatLiteral", "IntLiteral", "Interpolation", "Module",
        "StringLiteral",
    }  # fmt: skip
    assert classes - rules == made_in_python


def test_dump_shows_the_tree() -> None:
    source = SourceFile("t.tess", "def relu(x: T):\n    return f(x)\n")
    assert dump(parse_module(source).module, source) == (
        "Module @1:1\n"
        "  items:\n"
        "    FunctionDef name='relu' @1:1\n"
        "      parameters:\n"
        "        Parameter name='x' keyword_only=False @1:10\n"
        "          annotation: Name id='T' @1:13\n"
        "      body:\n"
        "        Return @2:5\n"
        "          value: Call @2:12\n"
        "            function: Name id='f' @2:12\n"
        "            arguments:\n"
        "              Argument @2:14\n"
        "                value: Name id='x' @2:14"
    )


def test_the_nodes_below_are_those_that_fields_hold() -> None:
    """Which fields hold nodes is told by their types; here by their values."""
    for path in sorted((ROOT / "stdlib").glob("*/*.tess"))[:40]:
        for node in descendants(parse_module(SourceFile(str(path), path.read_text())).module):
            values = [getattr(node, name) for name in field_names(type(node))]
            held = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
            assert children(node) == [item for item in held if isinstance(item, ast.Node)]
