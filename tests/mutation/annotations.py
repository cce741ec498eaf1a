"""The oracle's reading of signatures: values from types, arguments for parameters, results against types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tests.mutation.rules import undivided
from tests.mutation.values import (
    FLOATS,
    NAMES,
    Array,
    Closure,
    DType,
    Rejected,
    Sizes,
    Struct,
    StructType,
    Unjudged,
    Value,
)

if TYPE_CHECKING:
    from tests.mutation.evaluate import Oracle
    from tests.mutation.expressions import Names

SCALARS = {"int": int, "bool": bool, "str": str, "float": float}
LEADING = "..."


class Signatures:
    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    # ------------------------------------------------------------------------------------- values from types

    def arguments(self, function: Closure, sizes: Sizes) -> Names:
        """One value for each parameter of a function, by its own signature and facts."""
        definition = function.definition
        assert isinstance(definition, ast.FunctionDef)
        names: Names = dict(self.oracle.globals)
        if function.bound is not None:
            names.update(self.struct_sizes(function.bound))
        parameters = definition.parameters[1 if function.bound else 0 :]
        ints = [p.name for p in parameters if isinstance(p.annotation, ast.Name) and p.annotation.id == "int"]
        for name in ints:
            names[name] = sizes.of(name)
        self.satisfy(definition, names, sizes)
        made: Names = {}
        for parameter in parameters:
            if parameter.name in ints and parameter.default is None:
                made[parameter.name] = names[parameter.name]
            elif parameter.default is None and parameter.annotation is not None:
                made[parameter.name] = names[parameter.name] = self.made(parameter.annotation, names, sizes)
        self.check_result_symbols(definition, names, sizes)
        return made

    def satisfy(self, definition: ast.FunctionDef, names: Names, sizes: Sizes) -> None:
        """`D % h == 0`, and the quotients `D / h` of a signature: such a D is a multiple."""
        quotients = [n for p in definition.parameters for n in _below(p.annotation)] + list(_below(definition.returns))
        for node in [n for fact in definition.where for n in descendants(fact)] + quotients:
            if not (isinstance(node, ast.BinaryOp) and node.op in ("%", "/") and isinstance(node.left, ast.Name)):
                continue
            name, current = node.left.id, names.get(node.left.id)
            if current is not None and not isinstance(current, int):
                continue
            for symbol in [n.id for n in descendants(node.right) if isinstance(n, ast.Name) and n.id not in names]:
                names[symbol] = sizes.of(symbol)
            divisor = self.oracle.expression(node.right, names)
            size = current if current is not None else sizes.of(name)
            if isinstance(divisor, int) and divisor and size % divisor:
                names[name] = size * divisor

    def check_result_symbols(self, definition: ast.FunctionDef, names: Names, sizes: Sizes) -> None:
        """A symbol that only the result has is a mistake."""
        known = {n.id for p in definition.parameters for n in _below(p.annotation) if isinstance(n, ast.Name)}
        for symbol in self.symbols(definition.returns):
            if symbol not in known and symbol not in names and symbol not in self.oracle.constants:
                raise Rejected(f"`{symbol}` is only in the result")

    def symbols(self, node: ast.Expr | None) -> list[str]:
        found = [n.id for n in _below(node) if isinstance(n, ast.Name) and n.id[0].isupper()]
        return [name for name in found if not self.is_type(name)]

    def is_type(self, name: str) -> bool:
        return name in ("Tensor", "List", "Axis", "Shape", "Key") or isinstance(self.global_type(name), StructType)

    def global_type(self, name: str) -> Value:
        try:
            return self.oracle.name(name, {})
        except (Rejected, Unjudged):
            return None

    def made(self, node: ast.Expr, names: Names, sizes: Sizes | None) -> Value:
        """A value of a type. New symbols take their primes; without `sizes` all must be known."""
        match node:
            case ast.TupleExpr(items=items):
                return tuple(self.made(item, names, sizes) for item in items)
            case ast.BinaryOp(left=left, op="|"):
                return None if sizes is not None else self.made(left, names, sizes)
            case ast.Subscript(value=ast.Name(id="Tensor"), arguments=arguments):
                dims, dtype = self.entries(arguments, names)
                shape: list[int] = []
                for dim in dims:
                    shape += self.extent(dim, names, sizes)
                return Array(tuple(shape), dtype or DType("f32"))
            case ast.Name(id=name) if name in ("int", "bool", "str", "float"):
                return {"int": 2, "bool": True, "str": "", "float": 0.5}[name]
        if isinstance(node, ast.Name) and node.id in self.oracle.constants:
            return self.made(self.oracle.constants[node.id], names, sizes)
        dtype = self.maybe_dtype(node, names)
        if dtype is not None:
            return Array((), dtype)
        return self.struct_made(node, names, sizes)

    def struct_made(self, node: ast.Expr, names: Names, sizes: Sizes | None) -> Value:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if node.value.id == "List":
                raise Unjudged("a list of structs")
            owner = self.oracle.name(node.value.id, names)
            if isinstance(owner, StructType) and len(node.arguments) == len(owner.definition.parameters):
                extents = [self.extent(a.value, names, sizes)[0] for a in node.arguments]
                return self.new_struct(owner.definition, tuple(extents), names)
            if isinstance(owner, StructType):
                raise Unjudged("sizes of a struct")
        raise Unjudged("a type")

    def new_struct(self, definition: ast.StructDef, sizes: tuple[int, ...], names: Names) -> Struct:
        inner: Names = {**self.oracle.globals, **{p.id: s for p, s in zip(definition.parameters, sizes, strict=True)}}
        for field in definition.fields:
            unknown = [s for s in self.symbols(field.annotation) if s not in inner and s not in self.oracle.constants]
            if unknown:
                raise Rejected(f"`{unknown[0]}` is no parameter of the struct")
        fields = {field.name: self.made(field.annotation, inner, None) for field in definition.fields}
        return Struct(definition, sizes, fields)

    def struct_sizes(self, struct: Struct) -> Names:
        return {p.id: size for p, size in zip(struct.of.parameters, struct.sizes, strict=True)}

    def extent(self, dim: ast.Expr, names: Names, sizes: Sizes | None) -> list[int]:
        if isinstance(dim, ast.EllipsisLiteral):
            if LEADING not in names:
                if sizes is None:
                    raise Unjudged("unknown leading dims")
                names[LEADING] = (sizes.of("..0"), sizes.of("..1"))
            leading = names[LEADING]
            assert isinstance(leading, tuple)
            return [size for size in leading if isinstance(size, int)]
        for symbol in self.symbols(dim):
            if symbol not in names and symbol not in self.oracle.constants and sizes is not None:
                names[symbol] = sizes.of(symbol)
        size = self.oracle.expression(_unquoted(dim), names)
        if not isinstance(size, int):
            raise Rejected("a dim is an int")
        return [size]

    # --------------------------------------------------------------------------------------- dims and dtypes

    def entries(self, arguments: tuple[ast.Argument, ...], names: Names) -> tuple[list[ast.Expr], DType | None]:
        values = [argument.value for argument in arguments]
        if values:
            dtype = self.maybe_dtype(values[-1], names)
            if dtype is not None:
                return values[:-1], dtype
        return values, None

    def maybe_dtype(self, node: ast.Expr, names: Names) -> DType | None:
        match node:
            case ast.Name(id=name) if name in NAMES and name not in names:
                return DType(NAMES[name])
            case ast.Name(id=name) if name in self.oracle.constants:
                return self.maybe_dtype(self.oracle.constants[name], names)
            case ast.BinaryOp(op="@"):
                return self.dtype(node, names)
            case ast.Attribute(value=ast.Name(id=name), name="dtype"):
                value = names.get(name)
                return value.dtype if isinstance(value, Array) else None
        return None

    def dtype(self, node: ast.Expr, names: Names) -> DType:
        """`bf16 @accum(f32) @saturate`."""
        if not (isinstance(node, ast.BinaryOp) and node.op == "@"):
            found = self.maybe_dtype(node, names)
            if found is None:
                raise Rejected("no dtype")
            return found
        base = self.dtype(node.left, names)
        return DType(base.name, base.policy | {self.policy(node.right)})

    def policy(self, node: ast.Expr) -> str:
        if isinstance(node, ast.Name) and node.id in ("saturate", "stochastic_round"):
            return node.id
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and len(node.arguments) == 1:
            value = node.arguments[0].value
            if node.function.id == "accum" and isinstance(value, ast.Name) and value.id in FLOATS:
                return f"accum({value.id})"
            if node.function.id == "accum":
                raise Rejected("accumulates in no float")
        if isinstance(node, ast.Name) and node.id == "accum":
            raise Rejected("accum of what")
        raise Unjudged("a policy")

    # ------------------------------------------------------------------------------------------------ binding

    def bound(self, function: Closure, positional: list[Value], named: Names) -> Names:
        """The names of a body: arguments by parameter, and the symbols that they bind."""
        definition = function.definition
        assert definition is not None
        given = dict(named)
        parameters = definition.parameters[1 if function.bound else 0 :]
        places = [p for p in parameters if not p.keyword_only]
        if len(positional) > len(places):
            raise Rejected("too many arguments")
        for parameter, value in zip(places, positional, strict=False):
            if parameter.name in given:
                raise Rejected("one argument twice")
            given[parameter.name] = value
        unknown = given.keys() - {p.name for p in parameters}
        if unknown:
            raise Rejected(f"no parameter {unknown}")
        names: Names = dict(function.around)
        if function.bound is not None:
            names.update(self.struct_sizes(function.bound))
            names[definition.parameters[0].name] = function.bound
        for parameter in parameters:
            if parameter.name not in given:
                if parameter.default is None:
                    raise Rejected(f"`{parameter.name}` is missing")
                given[parameter.name] = self.oracle.expression(parameter.default, names)
        names.update(given)
        pairs = [(p.annotation, given[p.name]) for p in parameters if p.annotation is not None]
        self.bind_all(pairs, names, parameters)
        if isinstance(definition, ast.FunctionDef):
            self.hold(definition.where, names)
        return names

    def hold(self, facts: tuple[ast.Expr, ...], names: Names) -> None:
        for fact in facts:
            if self.oracle.expression(fact, names) is False:
                raise undivided(*(n for n in (names.get(s) for s in _names(fact)) if isinstance(n, int)), 0)

    def bind_all(
        self, pairs: list[tuple[ast.Expr, Value]], names: Names, parameters: tuple[ast.Parameter, ...]
    ) -> None:
        """Bare symbols first, then dims linear in one unbound symbol, then everything is held against its type."""
        own = {s for annotation, _ in pairs for s in self.symbols(annotation)} - {p.name for p in parameters}
        fixed = set(self.oracle.symbols.taken) | set(self.oracle.constants)
        free = {s for s in own if s not in fixed and (s not in names or s in self.oracle.globals)} - set(fixed)
        for binder in (self.bind_bare, self.bind_linear):
            for annotation, value in pairs:
                self.each_dim(annotation, value, names, lambda dim, size, by=binder: by(dim, size, names, free))
        for annotation, value in pairs:
            self.fits(annotation, value, names)

    def each_dim(
        self, annotation: ast.Expr, value: Value, names: Names, visit: Callable[[ast.Expr, int], None]
    ) -> None:
        match annotation, value:
            case ast.BinaryOp(left=left, op="|"), _ if value is not None:
                self.each_dim(left, value, names, visit)
            case ast.Subscript(value=ast.Name(id="Tensor"), arguments=arguments), Array():
                dims, _ = self.entries(arguments, names)
                if dims and isinstance(dims[0], ast.EllipsisLiteral):
                    rest = len(dims) - 1
                    if value.rank >= rest:
                        self.lead(value, rest, names)
                        dims = dims[1:]
                        for dim, size in zip(dims, value.shape[value.rank - rest :], strict=True):
                            visit(dim, size)
                elif len(dims) == value.rank:
                    for dim, size in zip(dims, value.shape, strict=True):
                        visit(dim, size)
            case ast.Subscript(arguments=arguments), Struct() if len(arguments) == len(value.sizes):
                for argument, size in zip(arguments, value.sizes, strict=True):
                    visit(argument.value, size)

    def lead(self, value: Array, rest: int, names: Names) -> None:
        names.setdefault(LEADING, value.shape[: value.rank - rest])

    def bind_bare(self, dim: ast.Expr, size: int, names: Names, free: set[str]) -> None:
        plain = _unquoted(dim)
        if isinstance(plain, ast.Name) and plain.id in free:
            free.discard(plain.id)
            names[plain.id] = size

    def bind_linear(self, dim: ast.Expr, size: int, names: Names, free: set[str]) -> None:
        unknown = {s for s in self.symbols(dim) if s in free}
        if len(unknown) != 1:
            return
        (symbol,) = unknown
        at = [self.oracle.expression(_unquoted(dim), {**names, symbol: n}) for n in (0, 1)]
        if not (isinstance(at[0], int) and isinstance(at[1], int)) or at[1] == at[0]:
            raise Unjudged("not linear")
        if (size - at[0]) % (at[1] - at[0]):
            raise undivided(size)
        names[symbol] = (size - at[0]) // (at[1] - at[0])
        free.discard(symbol)

    # ---------------------------------------------------------------------------------------------- conforming

    def fits(self, annotation: ast.Expr, value: Value, names: Names) -> None:
        """A value is of a type: rank, every dim, dtype; a policy only where both have one."""
        match annotation:
            case ast.BinaryOp(left=left, op="|"):
                if value is not None:
                    self.fits(left, value, names)
            case ast.TupleExpr(items=items):
                if not isinstance(value, tuple) or len(value) != len(items):
                    raise Rejected("another number of values")
                for item, part in zip(items, value, strict=True):
                    self.fits(item, part, names)
            case ast.Subscript(value=ast.Name(id="Tensor"), arguments=arguments):
                self.fits_tensor(arguments, value, names)
            case ast.Subscript(value=ast.Name(id=name), arguments=arguments) if name != "List":
                self.fits_struct(name, arguments, value, names)
            case ast.Name(id=name):
                self.fits_name(name, annotation, value, names)
            case _:
                raise Unjudged("a type")

    def fits_name(self, name: str, annotation: ast.Expr, value: Value, names: Names) -> None:
        if name in self.oracle.constants and self.maybe_dtype(annotation, names) is None:
            return self.fits(self.oracle.constants[name], value, names)
        if name in SCALARS:
            wanted = (int, float) if name == "float" else (SCALARS[name],)
            if not isinstance(value, wanted) or (name in ("int", "float") and isinstance(value, bool)):
                raise Rejected(f"not {name}")
            return None
        dtype = self.maybe_dtype(annotation, names)
        if dtype is not None and isinstance(value, Array) and (value.shape or value.dtype.name != dtype.name):
            raise Rejected("not that scalar")
        return None

    def fits_struct(self, name: str, arguments: tuple[ast.Argument, ...], value: Value, names: Names) -> None:
        owner = self.oracle.name(name, names)
        if not isinstance(owner, StructType):
            raise Unjudged("a type")
        if len(arguments) != len(owner.definition.parameters):
            raise Rejected("another number of sizes")
        if not isinstance(value, Struct) or value.of is not owner.definition:
            raise Rejected(f"not a {name}")
        for argument, size in zip(arguments, value.sizes, strict=True):
            if self.extent(argument.value, names, None) != [size]:
                raise Rejected("a struct of another size")

    def fits_tensor(self, arguments: tuple[ast.Argument, ...], value: Value, names: Names) -> None:
        if isinstance(value, int | float):
            raise Unjudged("a number as a tensor")
        if not isinstance(value, Array):
            raise Rejected("no tensor")
        dims, dtype = self.entries(arguments, names)
        wanted: list[int] = []
        for dim in dims:
            wanted += self.named_extent(dim, value, len(wanted), names)
        if tuple(wanted) != value.shape:
            raise Rejected(f"{value.shape} is not {tuple(wanted)}")
        if dtype is None:
            return
        if dtype.name != value.dtype.name:
            raise Rejected(f"{value.dtype.name} is not {dtype.name}")
        if dtype.policy and value.dtype.policy and dtype.policy != value.dtype.policy:
            raise Rejected("another policy")

    def named_extent(self, dim: ast.Expr, value: Array, place: int, names: Names) -> list[int]:
        """A new name in an annotation of a body names the size found there."""
        plain = _unquoted(dim)
        if isinstance(plain, ast.Name) and plain.id not in names and plain.id not in self.oracle.constants:
            if plain.id in NAMES or place >= value.rank:
                raise Rejected("another rank")
            names[plain.id] = value.shape[place]
        return self.extent(dim, names, None)

    def construct(self, type_: StructType, positional: list[Value], named: Names) -> Value:
        """`MLP[8, 16, 4]()` from its sizes, `Linear(w=w, b=b)` from its fields."""
        named = {name: value for name, value in named.items() if name not in ("seed", "key")}
        definition = type_.definition
        names: Names = dict(self.oracle.globals)
        if unknown := named.keys() - {f.name for f in definition.fields}:
            raise Rejected(f"no field {unknown}")
        if positional:
            raise Unjudged("positional fields")
        pairs = [(f.annotation, named[f.name]) for f in definition.fields if f.name in named]
        if type_.sizes is not None:
            names.update({p.id: s for p, s in zip(definition.parameters, type_.sizes, strict=True)})
            for annotation, value in pairs:
                self.fits(annotation, value, names)
            return self.new_struct(definition, type_.sizes, names)
        self.bind_all(pairs, names, ())
        if any(p.id not in names for p in definition.parameters):
            raise Rejected("sizes of nothing")
        sizes = [names[p.id] for p in definition.parameters]
        return self.new_struct(definition, tuple(size for size in sizes if isinstance(size, int)), names)


def _names(node: ast.Expr) -> list[str]:
    return [below.id for below in descendants(node) if isinstance(below, ast.Name)]


def _below(node: ast.Expr | None) -> list[ast.Node]:
    return [] if node is None else list(descendants(node))


def _unquoted(dim: ast.Expr) -> ast.Expr:
    """`"B"` is `B`."""
    return ast.Name(dim.span, dim.value) if isinstance(dim, ast.StringLiteral) else dim
