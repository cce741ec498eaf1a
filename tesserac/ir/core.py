"""The one SSA core of all IR levels: values, operations, blocks, regions, modules.

There is one `Op` class for every operation of every level. What an operation *is* stands in its `OpDef`; what it
holds stands in six slots. So the printer, the parser, cloning, CSE and DCE are each written once.

Regions are structured: a region has exactly one block, and a block that belongs to an operation with results ends in
a terminator. There are no jumps, hence dominance is nesting plus order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN, Span
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy

if TYPE_CHECKING:
    from tesserac.ir.attributes import Attribute
    from tesserac.ir.types import Type

Attr: TypeAlias = "bool | int | float | str | Dim | DType | Policy | Type | Attribute | tuple[Attr, ...] | None"
T = TypeVar("T")


class VerifyError(Exception):
    """The IR breaks an invariant. Always a fault of the compiler, never of the user's program."""

    def __init__(self, message: str, op: Op | None = None) -> None:
        super().__init__(f"{op.name}: {message}" if op is not None else message)
        self.op = op


def _accept(op: Op) -> None:
    """The verifier of an operation that has no invariant beyond the structural ones."""


@dataclass(frozen=True, eq=False)
class OpDef:
    """What all operations of one name share. `name` is `dialect.operation`."""

    name: str
    pure: bool
    """No effect but its results: may be removed when unused and merged with an equal one."""
    verify: Callable[[Op], None] = _accept
    terminator: bool = False
    effect: str = ""
    """What it does besides computing, in the order of the program: see `ordering.py`."""

    @cached_property
    def dialect(self) -> str:
        return self.name.partition(".")[0]

    def __repr__(self) -> str:
        return f"OpDef({self.name})"


OPDEFS: dict[str, OpDef] = {}


def define_op(
    name: str,
    *,
    pure: bool,
    verify: Callable[[Op], None] = _accept,
    terminator: bool = False,
    effect: str = "",
) -> OpDef:
    """Registers an operation. Each name is defined once."""
    if name in OPDEFS:
        raise ValueError(f"operation {name} is defined twice")
    OPDEFS[name] = OpDef(name, pure, verify, terminator, effect)
    return OPDEFS[name]


@dataclass(eq=False, slots=True)
class Value:
    """The result of an operation or the argument of a block. `uses` is kept by the operations that use it."""

    type: Type
    owner: Op | Block
    index: int
    name: str = ""
    """A hint for the printer; it has no meaning."""
    uses: dict[tuple[Op, int], None] = field(default_factory=dict)
    """Operations with the positions of their operands, in the order in which they came to it: a constant may have
    thousands, which go one by one."""

    @property
    def defining_op(self) -> Op | None:
        return self.owner if isinstance(self.owner, Op) else None

    def replace_all_uses(self, new: Value) -> None:
        for op, position in list(self.uses):
            op.set_operand(position, new)

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


def _values(types: Sequence[Type], names: Sequence[str], owner: Op | Block) -> list[Value]:
    """New values; those beyond the names have none."""
    if not types:
        return []
    named = len(names)
    return [Value(ty, owner, index, names[index] if index < named else "") for index, ty in enumerate(types)]


class Op:
    """One operation: a definition, operands, attributes, regions, results and where it came from. `operands` and `name`
    are plain attributes, since passes read them more often than anything else; who changes operands says so by
    `set_operand` or `set_operands`, which keep the lists of uses."""

    __slots__ = ("_place", "attrs", "name", "opdef", "operands", "parent", "regions", "results", "span")

    def __init__(
        self,
        opdef: OpDef,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attrs: Mapping[str, Attr] | None = None,
        regions: Sequence[Region] = (),
        span: Span = NO_SPAN,
        result_names: Sequence[str] = (),
    ) -> None:
        self.opdef = opdef
        self.name = opdef.name
        self.attrs: dict[str, Attr] = dict(attrs or {})
        self.regions = list(regions)
        self.span = span
        self.parent: Block | None = None
        self._place = 0
        self.results = _values(result_types, result_names, self)
        self.operands = tuple(operands)
        for region in self.regions:
            region.parent = self
        for position, value in enumerate(self.operands):
            value.uses[self, position] = None

    def add_result(self, type_: Type, name: str = "") -> Value:
        value = Value(type_, self, len(self.results), name)
        self.results.append(value)
        return value

    @property
    def result(self) -> Value:
        """The only result. Asking an operation with none or several for it is a compiler fault."""
        (value,) = self.results
        return value

    @property
    def body(self) -> Block:
        """The block of the only region."""
        (region,) = self.regions
        return region.block

    @property
    def symbol(self) -> str:
        """The name under which other operations refer to this one."""
        name = self.attrs["sym_name"]
        assert isinstance(name, str)
        return name

    def set_operand(self, position: int, value: Value) -> None:
        del self.operands[position].uses[self, position]
        self.operands = (*self.operands[:position], value, *self.operands[position + 1 :])
        value.uses[self, position] = None

    def set_operands(self, values: Sequence[Value]) -> None:
        self.drop_operands()
        self.operands = tuple(values)
        for position, value in enumerate(self.operands):
            value.uses[self, position] = None

    def drop_operands(self) -> None:
        for position, value in enumerate(self.operands):
            del value.uses[self, position]
        self.operands = ()

    def detach(self) -> None:
        """Takes the operation out of its block; it keeps operands and results."""
        if self.parent is not None:
            del self.parent.ops[self.parent.place(self)]
            self.parent = None

    def erase(self) -> None:
        """Deletes an operation whose results nobody uses, with everything inside it."""
        for value in self.results:
            if value.uses:
                raise VerifyError("erased while its result is still used", self)
        for region in self.regions:
            region.block.drop_all_uses()
        self.drop_operands()
        self.detach()

    def walk(self) -> Iterator[Op]:
        """This operation and all inside it, outer before inner, in program order; each block as it is when it is come
        to."""
        yield self
        waiting: list[Region | Iterator[Op]] = [*self.regions[::-1]]
        while waiting:  # no generator within generators: they hand every operation through
            begun = waiting[-1]
            if isinstance(begun, Region):
                begun = waiting[-1] = iter(begun.block.ops[:])
            for op in begun:
                yield op
                if op.regions:
                    waiting += op.regions[::-1]
                    break
            else:
                waiting.pop()

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Block:
    """A straight list of operations with arguments; the body of a region."""

    __slots__ = ("__weakref__", "_drift", "args", "ops", "parent")

    def __init__(self, arg_types: Sequence[Type] = (), arg_names: Sequence[str] = ()) -> None:
        self.args = _values(arg_types, arg_names, self)
        self.ops: list[Op] = []
        self.parent: Region | None = None
        self._drift = 0

    def append(self, op: Op) -> Op:
        return self.insert(len(self.ops), op)

    def insert(self, position: int, op: Op) -> Op:
        assert op.parent is None, f"{op.name} already stands in a block"
        op.parent = self
        op._place = position
        self.ops.insert(position, op)
        return op

    def place(self, op: Op) -> int:
        """The position of an operation of this block. Each remembers where it was put or last found; what has come
        and gone before it since is about what it was for the one that was looked for last."""
        around, width = op._place + self._drift, 1
        while True:
            low, high = max(around - width, 0), max(around + width, 0)
            try:
                found = self.ops.index(op, low, high)
                break
            except ValueError:
                if low == 0 and high >= len(self.ops):
                    raise
            width *= 16
        self._drift, op._place = found - op._place, found
        return found

    def add_arg(self, type_: Type, name: str = "") -> Value:
        value = Value(type_, self, len(self.args), name)
        self.args.append(value)
        return value

    @property
    def terminator(self) -> Op:
        last = self.ops[-1] if self.ops else None
        if last is None or not last.opdef.terminator:
            raise VerifyError("a block does not end in a terminator", self.parent_op)
        return last

    @property
    def parent_op(self) -> Op | None:
        return self.parent.parent if self.parent is not None else None

    def drop_all_uses(self) -> None:
        for op in self.ops:
            for region in op.regions:
                region.block.drop_all_uses()
            op.drop_operands()


class Region:
    """Holds exactly one block. A region is what makes control flow structured."""

    __slots__ = ("block", "parent")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.parent: Op | None = None
        block.parent = self


class Module:
    """A list of top-level operations, each a function, a kernel or a declaration with a `sym_name`."""

    def __init__(self, ops: Sequence[Op] = ()) -> None:
        self.block = Block()
        for op in ops:
            self.block.append(op)

    @property
    def ops(self) -> list[Op]:
        return self.block.ops

    def lookup(self, symbol: str) -> Op:
        found = self.find(symbol)
        if found is None:
            raise KeyError(f"the module has no `{symbol}`")
        return found

    def find(self, symbol: str) -> Op | None:
        return next((op for op in self.ops if op.attrs.get("sym_name") == symbol), None)

    def walk(self) -> Iterator[Op]:
        for op in list(self.ops):
            yield from op.walk()

    def clone(self) -> Module:
        return Module([clone_op(op, {}) for op in self.ops])


def clone_op(op: Op, mapping: dict[Value, Value]) -> Op:
    """A deep copy. `mapping` gives the replacement of outside values and receives those of inside ones."""
    regions = [clone_region(region, mapping) for region in op.regions] if op.regions else ()
    copy = Op(op.opdef, [mapping.get(v, v) for v in op.operands], (), op.attrs, regions, op.span)
    for value in op.results:
        mapping[value] = copy.add_result(value.type, value.name)
    return copy


def clone_region(region: Region, mapping: dict[Value, Value]) -> Region:
    source, block = region.block, Block()
    for value in source.args:
        mapping[value] = block.add_arg(value.type, value.name)
    for op in source.ops:
        block.append(clone_op(op, mapping))
    return Region(block)


def attr(op: Op, name: str, kind: type[T]) -> T:
    """An attribute that has to be there, and of a kind: the verifier has seen to it."""
    value = op.attrs[name]
    assert isinstance(value, kind), f"{op.name} has {name} = {value}, which is no {kind.__name__}"
    return value


def attr_tuple(op: Op, name: str, kind: type[T]) -> tuple[T, ...]:
    """An attribute that is a tuple, all of one kind."""
    return tuple_of(op.attrs[name], kind)


def tuple_of(value: Attr, kind: type[T]) -> tuple[T, ...]:
    assert isinstance(value, tuple), f"{value} is no tuple"
    found: list[T] = []
    for item in value:
        assert isinstance(item, kind), f"{item} in {value} is no {kind.__name__}"
        found.append(item)
    return tuple(found)


def optional_ints(value: Attr) -> tuple[int | None, ...]:
    """A tuple of ints, some of which may be missing."""
    assert isinstance(value, tuple), f"{value} is no tuple"
    return tuple(None if item is None else _int(item) for item in value)


def _int(value: Attr) -> int:
    assert isinstance(value, int), f"{value} is no int"
    return value
