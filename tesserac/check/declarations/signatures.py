"""Signatures from function definitions.

Enters: a `def` and what the names of its module mean. Leaves: its `Signature`, in which a dim name is a parameter of
kind int, a constant of the module, or a new symbol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.base.spelling import closest
from tesserac.check.declarations.annotations import AnnotationReader
from tesserac.check.model.control import assigned_names
from tesserac.check.model.specs import (
    AnySpec,
    ErrorSpec,
    Fact,
    ParameterSpec,
    Signature,
    StructDecl,
    TensorSpec,
    TypeSpec,
    dims_of,
    untold_sizes,
)
from tesserac.check.names.cascades import NO_SIZE, RENAMED
from tesserac.check.names.resolve import ModuleNames
from tesserac.diag.codes.names import E0202, E0204
from tesserac.diag.codes.shapes import E0312
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft, Sink
from tesserac.ops.collective import FREE
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import ALL, spellings

StructOf = Callable[[ast.Expr], StructDecl | None]
"""The struct that a name, or a name of another module, stands for."""

_NUMBERED = re.compile(r"(u|i|f|c|bf|tf|fp|int|uint|float|complex)(1|2|4|8|16|32|64|128|256)")
"""What is a dtype elsewhere, if it is none here."""


class SignatureNames:
    """Names in the annotations of one signature; `spans` collects where each symbol stands."""

    def __init__(
        self,
        ints: frozenset[str],
        constant: Callable[[str], Dim | None],
        module: ModuleNames,
        struct: StructOf,
        sink: Sink,
        module_sizes: Mapping[str, Dim] | None = None,
    ) -> None:
        self._module_sizes = module_sizes or {}
        self.ints = ints
        self._constant = constant
        self._module = module
        self._struct = struct
        self._sink = sink
        self.spans: dict[str, list[Span]] = {}
        self.refused: dict[str, bool] = {}
        self._drafts: dict[str, Draft] = {}

    def is_size(self, name: str) -> bool:
        return name in self.ints or name in self._module_sizes or self._constant(name) is not None

    def alias(self, name: str) -> ast.Expr | None:
        return self._module.alias(name)

    def is_reported(self, name: str) -> bool:
        return self._module.is_reported(name)

    def struct(self, node: ast.Expr) -> StructDecl | None:
        return self._struct(node)

    def type_names(self, module: str = "") -> Sequence[str]:
        return self._module.type_names(module)

    def dim(self, name: str, span: Span) -> Dim | None:
        constant = None if name in self.ints else self._constant(name)
        if constant is not None:
            return constant
        if name not in self.ints and name in self._module_sizes:
            return self._module_sizes[name]
        if name not in self.ints and name.startswith(FREE):
            return Dim.sym(name)  # of a mesh: whoever calls the function says how many there are
        if name not in self.ints and not name[0].isupper() and not self._take(name, span):
            return None
        self.spans.setdefault(name, []).append(span)
        return Dim.sym(name)

    def _take(self, name: str, span: Span) -> bool:
        """Reports a name that is no size, once. One that is like nothing else was meant as a new dim: it is taken as
        one, so that nothing follows from it."""
        if name in self.refused:
            return self.refused[name]
        if _NUMBERED.fullmatch(name):
            draft = self._sink.error(E0204, at=span, problem=f"there is no dtype `{name}`")
            draft.remark("there are " + ", ".join(f"`{dtype}`" for dtype in ALL))
            self.refused[name] = False
            return False
        draft = self._sink.error(E0204, at=span, problem=f"`{name}` {NO_SIZE}")
        draft.remark("a new dim name starts with an upper-case letter; int parameters and constants are sizes too")
        known = [*self.ints, *self.spans, *spellings()]
        draft.did_you_mean(name, known, span)
        self.refused[name] = closest(name, known) is None
        self._drafts[name] = draft
        return self.refused[name]

    def offer_names(self, node: ast.FunctionDef) -> None:
        """For each name that was meant as a new dim, the fix that writes it as one wherever it stands."""
        for name in (name for name, is_taken in self.refused.items() if is_taken):
            uses = [n.span for n in descendants(node) if isinstance(n, ast.Name) and n.id == name]
            new = name[0].upper() + name[1:]
            if new not in self.spans and not _is_bound(node, name):
                self._drafts[name].fix(f"{RENAMED} `{new}`", *(Edit(span, new) for span in uses))


def _is_bound(node: ast.FunctionDef, name: str) -> bool:
    """Whether a function has a value of this name: a parameter, or what its body assigns."""
    return any(p.name == name for p in node.parameters) or name in assigned_names(node.body)


def read_signature(
    node: ast.FunctionDef,
    constant: Callable[[str], Dim | None],
    module: ModuleNames,
    struct: StructOf,
    sink: Sink,
    module_sizes: Mapping[str, Dim],
) -> Signature:
    ints = [p.name for p in node.parameters if isinstance(p.annotation, ast.Name) and p.annotation.id == "int"]
    names = SignatureNames(frozenset(ints), constant, module, struct, sink, module_sizes)
    reader = AnnotationReader(names, sink)
    parameters = tuple(_parameter(reader, parameter) for parameter in node.parameters)
    _check_twice(node, sink)
    merged = _merged_dims(parameters, names)
    parameters = tuple(replace(p, spec=_with_merged(p.spec, merged)) for p in parameters)
    symbols = tuple(dict.fromkeys([*_bound_by(parameters, names), *ints]))
    result: TypeSpec = AnySpec(node.name_span)
    unbound: tuple[str, ...] = ()
    if node.returns is not None:
        shared = [name for size in module_sizes.values() for name in size.symbols()]
        result, unbound = _result(reader, node, node.returns, merged, (*symbols, *shared), names, sink)
    given = frozenset(names.spans) | frozenset(ints)
    facts = tuple(fact for clause in node.where for link in _links(clause) if (fact := _fact(reader, link, sink)))
    _check_facts(node, names, given, unbound, sink)
    names.offer_names(node)
    hidden = tuple(sorted({name for dim in merged for name in dim.symbols()}))
    attributes = tuple(reader.attributes)
    return Signature(node, parameters, result, symbols, facts, unbound, hidden, attributes, names.spans)


def _bound_by(parameters: tuple[ParameterSpec, ...], names: SignatureNames) -> list[str]:
    """The sizes that arguments give; one that stands in the type of a function alone is that function's own."""
    if any(isinstance(parameter.spec, ErrorSpec) for parameter in parameters):
        return list(names.spans)
    given = {name for parameter in parameters for dim in dims_of(parameter.spec) for name in dim.dim.symbols()}
    return [name for name in names.spans if name in given]


def _merged_dims(parameters: tuple[ParameterSpec, ...], names: SignatureNames) -> dict[Dim, Dim]:
    """Products such as `B*H` of whose names no argument tells the size: they are one size of their own, `BH`. The names
    may stand in types that have the same product, not as values."""
    untold = untold_sizes(frozenset(names.spans) - names.ints, [parameter.spec for parameter in parameters])
    merged: dict[Dim, Dim] = {}
    for dim in (dim.dim for parameter in parameters for dim in dims_of(parameter.spec)):
        if len(dim.terms) != 1 or not dim.symbols() or not dim.symbols() <= untold:
            continue
        name = "".join(character for character in str(dim) if character.isalnum())
        while name in names.spans:
            name += "_"
        merged.setdefault(dim, Dim.sym(name))
    for dim, symbol in merged.items():
        first = [names.spans.pop(name) for name in sorted(dim.symbols()) if name in names.spans]
        names.spans[str(symbol)] = first[0] if first else []
    return merged


def _with_merged(spec: TypeSpec, merged: dict[Dim, Dim]) -> TypeSpec:
    if not isinstance(spec, TensorSpec) or not merged:
        return spec
    return replace(spec, dims=tuple(replace(dim, dim=merged.get(dim.dim, dim.dim)) for dim in spec.dims))


def _parameter(reader: AnnotationReader, node: ast.Parameter) -> ParameterSpec:
    spec = reader.read(node.annotation, node.name_span)
    return ParameterSpec(node.name, spec, node.default, node.keyword_only, node.name_span)


def _check_twice(node: ast.FunctionDef, sink: Sink) -> None:
    seen: dict[str, Span] = {}
    for parameter in node.parameters:
        if parameter.name in seen:
            draft = sink.error(E0202, at=parameter.name_span, name=parameter.name)
            draft.note(seen[parameter.name], "first defined here")
        seen.setdefault(parameter.name, parameter.name_span)


def _result(
    reader: AnnotationReader,
    function: ast.FunctionDef,
    node: ast.Expr,
    merged: dict[Dim, Dim],
    symbols: tuple[str, ...],
    names: SignatureNames,
    sink: Sink,
) -> tuple[TypeSpec, tuple[str, ...]]:
    spec = _with_merged(reader.read(node, node.span), merged)
    unknown = [
        (name, dim.span)
        for dim in dims_of(spec)
        for name in sorted(dim.dim.symbols())
        if name not in symbols and not name.startswith(FREE)
    ]
    told: set[Dim] = set()
    first = {name: span for name, span in reversed(unknown) if name not in names.refused}
    for name, span in sorted(first.items(), key=lambda item: item[1].start):
        product = next((dim for dim in merged if name in dim.symbols()), None)
        names.spans.pop(name, None)
        if product in told:
            continue
        draft = sink.error(E0312, at=span, symbol=f'"{name}"')
        if product is None:
            draft.did_you_mean(name, symbols, span, quote='"', written=_as_written(span, name))
        else:
            told.add(product)
            _offer_number(draft, function, name, product)
        _offer_meaning(draft, function, name, span)
    return (ErrorSpec(node.span) if unknown else spec), tuple(name for name, _ in unknown)


def _offer_number(draft: Draft, function: ast.FunctionDef, name: str, product: Dim) -> None:
    """A size that is a part of one that an argument has: who calls has to say it."""
    draft.remark(f'an argument has the size "{product}", which does not tell what "{name}" is')
    last = function.parameters[-1].span
    draft.fix(f"have it said: `{name}: int`", Edit(last._replace(start=last.end), f", {name}: int"))


def _offer_meaning(draft: Draft, function: ast.FunctionDef, name: str, span: Span) -> None:
    """Where a clause says what the size is, the fix that writes that in its place."""
    for place, clause in enumerate(function.where):
        match clause:
            case (
                ast.Comparison(first=ast.Name(id=own), links=(ast.ComparisonLink(op="==", operand=meant),))
                | ast.Comparison(first=meant, links=(ast.ComparisonLink(op="==", operand=ast.Name(id=own)),))
            ) if own == name and isinstance(meant, ast.Name | ast.IntLiteral):
                text = meant.id if isinstance(meant, ast.Name) else str(meant.value)
                edits = [Edit(use, text) for use in _uses(function, name) if use not in _within(clause)]
                draft.fix(f"write {text} where it stands", *edits, Edit(_clause_and_comma(function, place), ""))
                return


def _uses(function: ast.FunctionDef, name: str) -> list[Span]:
    return [use.span for use in descendants(function) if isinstance(use, ast.Name) and use.id == name]


def _within(clause: ast.Expr) -> list[Span]:
    return [clause.span, *(part.span for part in descendants(clause))]


def _clause_and_comma(function: ast.FunctionDef, place: int) -> Span:
    """A clause with what separates it from the others, or with `where` if it is the only one."""
    clauses, own = function.where, function.where[place].span
    assert function.returns is not None
    if place:
        return own._replace(start=clauses[place - 1].span.end)
    if len(clauses) == 1:
        return own._replace(start=function.returns.span.end)
    return own._replace(end=clauses[1].span.start)


def _as_written(span: Span, name: str) -> str:
    """How a dim is written: it stays quoted if it was, and a quoted name is two characters longer."""
    return "{}" if span.end - span.start <= len(name) + 1 else '"{}"'


def _links(clause: ast.Expr) -> Iterator[ast.Expr]:
    """`0 <= k <= N` as two comparisons."""
    if not isinstance(clause, ast.Comparison):
        yield clause
        return
    first = clause.first
    for link in clause.links:
        yield ast.Comparison(clause.span, first, (link,))
        first = link.operand


def _fact(reader: AnnotationReader, clause: ast.Expr, sink: Sink) -> Fact | None:
    match clause:
        case ast.Comparison(first=ast.BinaryOp(op="%") as rest, links=(ast.ComparisonLink(op="=="),)) if _is_zero(
            clause.links[0].operand
        ):
            divisor, dividend = reader.dim(rest.right), reader.dim(rest.left)
            return None if divisor is None or dividend is None else Fact("divides", divisor, dividend, clause.span)
        case ast.Comparison(first=first, links=(ast.ComparisonLink(op=op, operand=operand),)):
            left, right = reader.dim(first), reader.dim(operand)
            if left is None or right is None:
                return None
            if op in ("==", ">=", ">", "<=", "<"):
                return _comparison_fact(op, left, right, clause.span)
    draft = sink.error(E0204, at=clause.span, problem="this is not a fact about sizes")
    draft.remark("facts are `D % h == 0`, `F == H`, `N >= 2`, `N < M`")
    return None


def _check_facts(
    node: ast.FunctionDef, names: SignatureNames, given: frozenset[str], unbound: tuple[str, ...], sink: Sink
) -> None:
    """A fact about a size that nothing in the signature has says nothing. Those in the result only are told there."""
    for name in [name for name in names.spans if name not in given]:
        span = names.spans.pop(name)[0]
        if name in unbound or name in names.refused:
            continue
        draft = sink.error(E0204, at=span, problem=f"`{name}` is a size of no argument of `{node.name}`")
        draft.did_you_mean(name, given, span)


def _is_zero(node: ast.Expr) -> bool:
    return isinstance(node, ast.IntLiteral) and node.value == 0


def _comparison_fact(op: str, left: Dim, right: Dim, span: Span) -> Fact:
    if op == "==":
        return Fact("equal", left, right, span)
    if op in ("<", "<="):
        left, right = right, left
    return Fact("at_least", left, right + (ONE if op in ("<", ">") else ZERO), span)
