"""What a compiled function takes and gives, as the runtime needs it: plain data, without the compiler's types.

Named tuples, here and elsewhere in the runtime: they are made in a fifth of the time that a dataclass takes, which
every start of a program pays, and they are rows of JSON as they stand.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tessera.container import Row
from tessera.errors import Place
from tessera.sizes import Size, read_size

STATUS_OK, STATUS_GUARD, STATUS_OUT_OF_MEMORY, STATUS_BAD_INDEX, STATUS_ASSERT, STATUS_TOO_LARGE = range(6)
STATUS_INTERRUPTED = 6
"""What an entry returns. The values of a failed guard are its two sides; of out of memory, the bytes asked for; of a
bad index, the index and the size it has to be below."""

STATUS_VALUES = 4
STATUS_DUE = 8 + 8 * STATUS_VALUES
STATUS_RAISED = STATUS_DUE + 8
STATUS_SIZE = STATUS_RAISED + 3 * 8
"""Bytes of the status: {i32 code, i32 site, i64 values[4], i64 due, ptr raised[3]}. `due` is when signals are looked
for next, and STOPPED once a handler has raised: then `raised` are its type, value and traceback, and the call ends."""
STOPPED = -1


FRESH = -1
"""Stands where a result takes no parameter's memory."""
OUT = "out"
"""The keyword for memory of the caller's that the results take. Compiled code knows it by where this text lies, as all
names in Python programs that have it do."""


class TensorSpec(NamedTuple):
    """A parameter or a result. `dtype` is NumPy's name, `element` the language's with its policy."""

    name: str
    sizes: tuple[Size, ...]
    dtype: str
    element: str

    def show(self) -> str:
        return f"Tensor[{', '.join([*(size.text for size in self.sizes), self.element])}]"


def read_tensor(row: Row) -> TensorSpec:
    """A parameter or a result as JSON holds it."""
    name, sizes, dtype, element = row
    return TensorSpec(name, tuple(map(read_size, sizes)), dtype, element)


class Binding(NamedTuple):
    """How a symbol follows from an argument: `factor * shape[axis] == scale * symbol + offset`."""

    symbol: str
    parameter: int
    axis: int
    factor: Size
    scale: Size
    offset: Size


class Site(NamedTuple):
    """A place of the program that can end a call. `text` is the rule that has to hold there."""

    operator: str
    text: str
    file: str
    line: int
    column: int

    @property
    def place(self) -> Place:
        return Place(self.file, self.line, self.column)

    def at(self, place: Place) -> Site:
        return Site(self.operator, self.text, *place)


class Signature(NamedTuple):
    """`symbols` is sorted: the order of their values in the argument block of the entry. `bindings` come in an order
    in which each needs only symbols bound before it. `returns_tuple` is false for a function of one result. `donated`
    has for each result the parameter whose memory it takes, or FRESH; it is empty where no result takes any. `numerics`
    is the mode of arithmetic that some of the function has, where that is not the usual one: `fast`."""

    name: str
    parameters: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    returns_tuple: bool
    symbols: tuple[str, ...]
    bindings: tuple[Binding, ...]
    sites: tuple[Site, ...]
    donated: tuple[int, ...] = ()
    numerics: str = ""

    def taken(self) -> dict[int, int]:
        """The parameters whose memory results take, by the position of the result."""
        return {result: parameter for result, parameter in enumerate(self.donated) if parameter != FRESH}

    def takes_out(self, params: Collection[str] = ()) -> bool:
        """Whether `out` names memory for the results: a parameter of this name, or a struct, has it for itself. Those
        that the module gives, `params`, are not named in a call."""
        return all(p.name.partition(".")[0] != OUT for p in self.parameters if p.name.partition(".")[0] not in params)
