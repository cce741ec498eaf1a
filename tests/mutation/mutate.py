"""One-token mutants of a program, in seven kinds.

    dim      x: Tensor[B, D, f32]  ->  x: Tensor[B, H, f32]          another symbol of the program, or a misspelt one
    size     zeros(4)              ->  zeros(5)
    axis     sum(x, axis=1)        ->  sum(x, axis=0)
    dtype    Tensor[N, f32]        ->  Tensor[N, bf16]
    policy   bf16 @accum(f32)      ->  bf16 @saturate
    swap     a @ b                 ->  b @ a                         operands, or two neighbouring arguments
    name     softmax(x)            ->  softmxa(x)                    a function or keyword argument misspelt
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from tesserac.base.source import SourceFile, Span
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tesserac.syntax.walk import children, descendants
from tests.mutation.programs import Program, candidates, usable
from tests.mutation.values import NAMES

KINDS = ("dim", "size", "axis", "dtype", "policy", "swap", "name")
DTYPES = ("f32", "f64", "bf16", "f16", "i32", "i64", "bool")
ACCUMULATORS = ("f64", "bf16", "f16")
SHAPED = ("reshape", "expand", "zeros", "ones", "full", "normal", "uniform", "split", "one_hot", "repeat", "pad")
ORDERED = ("-", "/", "@", "//", "%", "<", ">")


@dataclass(frozen=True)
class Place:
    """Where a token stands, and what may stand there instead."""

    kind: str
    span: Span
    instead: tuple[str, ...]


@dataclass(frozen=True)
class Mutant:
    program: str
    kind: str
    line: int
    text: str
    change: str


def mutants(seed: int, count: int) -> list[Mutant]:
    """Kinds in turn; a program and a place of it at random. No mutant comes twice."""
    rng = random.Random(seed)
    found: dict[str, Mutant] = {}
    for _ in range(count * 200):
        kind, program = KINDS[len(found) % len(KINDS)], rng.choice(candidates())
        fitting = [place for place in places(program) if place.kind == kind]
        if not fitting or not usable(program):
            continue
        place = rng.choice(fitting)
        mutant = _mutant(program, place, rng.choice(place.instead))
        found.setdefault(mutant.text, mutant)
        if len(found) == count:
            break
    return list(found.values())


def _mutant(program: Program, place: Place, new: str) -> Mutant:
    start, end = place.span.start, place.span.end
    line = program.text.count("\n", 0, start) + 1
    text = program.text[:start] + new + program.text[end:]
    return Mutant(program.name, place.kind, line, text, f"{program.text[start:end]} -> {new}")


@cache
def places(program: Program) -> tuple[Place, ...]:
    source = SourceFile("example.tess", program.text)
    module = parse_module(source).module
    names = {node.id for node in descendants(module) if isinstance(node, ast.Name) and _symbol(node.id)}
    symbols = tuple(sorted(names - _types(module)))
    found = [
        *_dims(module, symbols), *_sizes(module), *_axes(module, symbols), *_dtypes(module), *_policies(module, source),
        *_swaps(module, source), *_misspelt(module),
    ]  # fmt: skip
    return tuple(place for place in found if place.instead)


def _symbol(name: str) -> bool:
    return name[0].isupper() and name not in ("Tensor", "List", "INF", "KVCache", "Key", "Axis", "Shape")


def _types(module: ast.Module) -> set[str]:
    return {item.name for item in module.items if isinstance(item, ast.StructDef | ast.ParamDecl)}


def _dims(module: ast.Module, symbols: tuple[str, ...]) -> Iterator[Place]:
    for node in _outside_axes(module):
        if isinstance(node, ast.Name) and node.id in symbols:
            others = tuple(name for name in symbols if name != node.id)
            yield Place("dim", node.span, (*others, *others, node.id + node.id[-1].lower()))


def _outside_axes(node: ast.Node) -> Iterator[ast.Node]:
    for found in descendants(node):
        if isinstance(found, ast.StructDef):  # its parameters are declarations
            for part in (*found.fields, *found.methods):
                yield from descendants(part)
        elif not isinstance(found, ast.Argument) or found.name not in ("axis", "dim"):
            yield from (a for a in _direct(found) if isinstance(a, ast.Name))


def _direct(node: ast.Node) -> Iterator[ast.Node]:
    if not isinstance(node, ast.StructDef):
        yield from children(node)


def _sizes(module: ast.Module) -> Iterator[Place]:
    for node in descendants(module):
        inside: list[ast.Node] = []
        if isinstance(node, ast.Subscript):
            inside = [n for a in node.arguments for n in descendants(a)]
        elif isinstance(node, ast.Call) and _called(node) in SHAPED:
            inside = [n for a in node.arguments if a.name is None for n in descendants(a)]
        for literal in inside:
            if isinstance(literal, ast.IntLiteral):
                value = literal.value
                others = (value + 1, 2 * value, value - 1)
                yield Place("size", literal.span, tuple(str(v) for v in others if 0 < v != value))


def _called(node: ast.Call) -> str:
    return node.function.id if isinstance(node.function, ast.Name) else getattr(node.function, "name", "")


def _axes(module: ast.Module, symbols: tuple[str, ...]) -> Iterator[Place]:
    for call in descendants(module):
        if not isinstance(call, ast.Call):
            continue
        for argument in call.arguments:
            if argument.name in ("axis", "dim"):
                yield from _axis_values(argument.value, symbols)
        if _called(call) == "permute":
            yield from (p for a in call.arguments[1:] for p in _axis_values(a.value, ()))


def _axis_values(value: ast.Expr, symbols: tuple[str, ...]) -> Iterator[Place]:
    for node in value.items if isinstance(value, ast.TupleExpr) else (value,):
        if isinstance(node, ast.IntLiteral):
            others = (node.value + 1, node.value - 1, -1)
            yield Place("axis", node.span, tuple(str(v) for v in others if v != node.value))
        elif isinstance(node, ast.UnaryOp):
            yield Place("axis", node.span, ("0", "-2", "1"))
        elif isinstance(node, ast.Name):
            yield Place("axis", node.span, (*(s for s in symbols if s != node.id), "0"))


def _dtypes(module: ast.Module) -> Iterator[Place]:
    for node in descendants(module):
        if isinstance(node, ast.Name) and node.id in NAMES:
            yield Place("dtype", node.span, tuple(name for name in DTYPES if name != node.id))


def _policies(module: ast.Module, source: SourceFile) -> Iterator[Place]:
    for node in descendants(module):
        if not (isinstance(node, ast.BinaryOp) and node.op == "@" and _is_policy(node.right)):
            continue
        yield Place("policy", Span(source.path, node.left.span.end, node.right.span.end), ("",))
        if isinstance(node.right, ast.Call):
            yield Place("policy", node.right.span, ("saturate", "stochastic_round"))
            yield Place("policy", node.right.arguments[0].span, ACCUMULATORS)


def _is_policy(node: ast.Expr) -> bool:
    name = node.function if isinstance(node, ast.Call) else node
    return isinstance(name, ast.Name) and name.id in ("accum", "saturate", "stochastic_round")


def _swaps(module: ast.Module, source: SourceFile) -> Iterator[Place]:
    for node in descendants(module):
        if isinstance(node, ast.BinaryOp) and node.op in ORDERED and not _is_policy(node.right):
            yield from _swapped(node.left.span, node.right.span, source)
        elif isinstance(node, ast.Call):
            given = [a for a in node.arguments if a.name is None]
            for first, second in pairwise(given):
                yield from _swapped(first.span, second.span, source)


def _misspelt(module: ast.Module) -> Iterator[Place]:
    """Two neighbouring letters swapped, in names long enough to tell what was meant."""
    for node in descendants(module):
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Name):
            yield from _slips(node.function.id, node.function.span)
        elif isinstance(node, ast.Argument) and node.name is not None:
            yield from _slips(node.name, node.name_span)


def _slips(name: str, span: Span) -> Iterator[Place]:
    slips = tuple(name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in range(1, len(name) - 1))
    if len(name) >= 4:
        yield Place("name", span, tuple(slip for slip in slips if slip != name))


def _swapped(first: Span, second: Span, source: SourceFile) -> Iterator[Place]:
    text = source.text
    left, right = text[first.start : first.end], text[second.start : second.end]
    between = text[first.end : second.start]
    if left != right and "\n" not in text[first.start : second.end] and not set("()") & set(between):
        yield Place("swap", Span(source.path, first.start, second.end), (right + between + left,))
