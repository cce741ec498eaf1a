"""From what a caller passes to the flat values that compiled code takes.

Enters: arguments, each with the kind that its parameter declares. Leaves: leaves in order, and per argument the choice
that says what to compile for. A struct is an object of the module's class, a dict, or anything with its fields.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tessera.device_array import DeviceArray
from tessera.dtypes import is_stored
from tessera.errors import (
    OUT_OF_MEMORY,
    WRONG_DEVICE,
    WRONG_DTYPE,
    WRONG_KIND,
    TesseraError,
    failure,
    kind_of,
    shown_number,
)
from tessera.interface import (
    APART,
    DICT,
    OF_FUNCTION,
    OPERATOR,
    UNIT,
    ArrayKind,
    Choice,
    Compound,
    Declared,
    Kind,
    Number,
    Specialization,
    StructInterface,
    Tree,
    exact_number,
    related_name,
)
from tessera.operator import Operator
from tessera.programs import FunctionValue, remember_program
from tessera.scaled import Scaled
from tessera.structs import StructValue

if TYPE_CHECKING:
    from tessera.arguments import Array


_LEAST, _LARGEST = -(2**63), 2**64 - 1
_NO_DTYPE = "no dtype of the language is stored so; `x.astype(...)` converts"


def _plain(value: object) -> object:
    """A number of NumPy's as one of Python's; one on a device stays there."""
    if isinstance(value, DeviceArray):
        return value
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


class Flattening:
    """The arguments of one call, taken apart. Sizes are numbered in the order in which they appear."""

    def __init__(self, function: str, structs: Mapping[str, StructInterface], *, is_exact: bool = False) -> None:
        """`is_exact` says that every size is known while compiling."""
        self._is_exact = is_exact
        self._function = function
        self._structs = structs
        self._numbers: dict[int, int] = {}
        self._declared: list[int] = []
        self.leaves: list[object] = []

    def add(self, name: str, kind: Kind, value: object) -> Choice:
        """Takes one argument; `name` is its parameter's."""
        match kind:
            case "tensor" | "float":
                self._declared.append(len(self.leaves))
                self.leaves.append(value if kind == "tensor" else _plain(value))
                return Declared()
            case "int" | "bool" | "str":
                return self._static(name, kind, value)
            case "generic":
                return self._array(name, self._read(name, value), ())
            case "open":
                return self._open(name, value)
        assert isinstance(kind, Compound)
        if kind.kind == "optional":
            return None if value is None else self.add(name, kind.items[0], value)
        if kind.kind in ("struct", "any struct"):
            return self._struct(name, kind, value)
        if kind.kind in ("scaled", "any scaled"):
            return self._scaled(name, kind, value)
        return self._items(name, kind, value)

    def _static(self, name: str, kind: str, value: object) -> Choice:
        """A number of NumPy's is as good as one of Python's."""
        plain = _plain(value)
        if type(plain).__name__ != kind or not isinstance(plain, int | str):
            raise self._wrong(name, f"must be {'an' if kind == 'int' else 'a'} {kind}, not {kind_of(value)}")
        if isinstance(plain, int) and not _LEAST <= plain <= _LARGEST:
            what = f"argument `{name}` of `{self._function}` is {shown_number(plain)}"
            raise failure(WRONG_DTYPE, what, ("compile-time ints have 64 bits",))
        return plain

    def _array(self, name: str, value: object, sizes: tuple[int, ...]) -> ArrayKind:
        import numpy as np

        if not isinstance(value, np.ndarray | np.generic | DeviceArray):
            raise self._wrong(name, "must be an array")
        if is_masked(value):
            raise self._wrong(name, MASKED)
        if not is_stored(value.dtype):
            raise failure(WRONG_DTYPE, f"argument `{name}` of `{self._function}` has dtype {value.dtype}", (_NO_DTYPE,))
        if not sizes:
            self._declared.append(len(self.leaves))
        self.leaves.append(value)
        return ArrayKind(value.dtype.name, value.ndim, sizes)

    def _read(self, name: str, value: object) -> object:
        """An array of another library as one of ours."""
        return as_array(value) if hasattr(value, "__dlpack__") and not is_masked(value) else value

    def related(self) -> Specialization:
        """Which sizes of declared arrays are those of arrays without declared dims."""
        found = []
        for leaf in self._declared if self._numbers or self._is_exact else ():
            shape = getattr(self.leaves[leaf], "shape", ())
            sizes = tuple(exact_number(size) if self._is_exact else self._numbers.get(size, APART) for size in shape)
            if any(number != APART for number in sizes):
                found.append((related_name(leaf), ArrayKind("", len(sizes), sizes)))
        return tuple(found)

    def _open(self, name: str, value: object) -> Choice:
        """What the value itself says, where nothing is declared."""
        if value is None or isinstance(value, int | str):
            return value
        if isinstance(value, Operator | FunctionValue):
            return self._of_language(name, value)
        if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:  # np.float64 is a float too
            return self._array(name, self._read(name, value), ())
        if isinstance(value, float):
            self.leaves.append(value)
            return Number()
        if isinstance(value, StructValue):
            return self._struct(name, Compound("any struct", (), value._struct_name()), value)
        if isinstance(value, Scaled):
            raise self._wrong(name, "has scales, so its type must be declared: `Tensor[M, N, i8 @scale(axis=0)]`")
        if isinstance(value, tuple | list):
            return Tree("", self._all_open(name, value))
        if not hasattr(value, "__dlpack__"):
            raise self._wrong(name, f"must be an array, a number, a struct or a tuple, not {kind_of(value)}")
        array = as_array(value)
        return self._array(name, array, tuple(map(self._number_of, array.shape)))

    def _of_language(self, name: str, value: Operator | FunctionValue) -> Choice:
        """What a function captured is of its own program's structs."""
        if isinstance(value, Operator):
            return Tree(OPERATOR + value.tree, self._all_open(name, value.parts))
        remember_program(value.program)
        around, self._structs = self._structs, value.program.structs
        items = tuple(self._captured(f"{name}.{i}", item) for i, item in enumerate(value.items))
        self._structs = around
        return Tree(OF_FUNCTION + value.text(), items)

    def _captured(self, name: str, value: object) -> Choice:
        if isinstance(value, Mapping):
            return Tree(DICT + json.dumps(list(value)), self._all_open(name, tuple(value.values())))
        return self._open(name, value)

    def _all_open(self, name: str, values: Sequence[object]) -> tuple[Choice, ...]:
        return tuple(self._open(f"{name}.{i}", value) for i, value in enumerate(values))

    def _number_of(self, size: int) -> int:
        if self._is_exact:
            return exact_number(size)
        return self._numbers.setdefault(size, UNIT if size == 1 else len(self._numbers))

    def _items(self, name: str, kind: Compound, value: object) -> Choice:
        if not isinstance(value, tuple | list):
            raise self._wrong(name, f"must be a {kind.kind}, not {kind_of(value)}")
        kinds = kind.items * len(value) if kind.kind == "list" else kind.items
        if len(kinds) != len(value):
            raise self._wrong(name, f"must have {len(kinds)} items, not {len(value)}")
        pairs = enumerate(zip(kinds, value, strict=True))
        return Tree("", tuple(self.add(f"{name}.{i}", own, item) for i, (own, item) in pairs))

    def _struct(self, name: str, kind: Compound, value: object) -> Choice:
        struct = self._structs[kind.name]
        if isinstance(value, StructValue) and value._struct_name() != kind.name:
            raise self._wrong(name, f"must be a `{kind.name}`, not a `{value._struct_name()}`")
        choices = []
        kinds = kind.items or [own for _, own in struct.fields]
        for (field, _), own in zip(struct.fields, kinds, strict=True):
            inner = self._field(name, kind.name, field, value)
            choices.append(self.add(f"{name}.{field}", opened(own) if kind.kind == "any struct" else own, inner))
        if isinstance(value, Mapping):
            self._refuse_others(name, struct, value)
        return Tree(kind.name, tuple(choices))

    def _scaled(self, name: str, kind: Compound, value: object) -> Choice:
        """A value with scales is anything with `q` and `scale`."""
        numbers, scales = (self._field(name, "Scaled", field, value) for field in Scaled._fields)
        choice: Choice = Declared()
        if kind.kind == "any scaled":
            choice = self._open(f"{name}.q", numbers)
        else:
            self.leaves.append(numbers)
        self.leaves.append(scales)
        return choice

    def _field(self, name: str, struct: str, field: str, value: object) -> object:
        missing = object()
        found = value.get(field, missing) if isinstance(value, Mapping) else getattr(value, field, missing)
        if found is missing:
            raise self._wrong(name, f"must be a `{struct}`; this {type(value).__name__} has no `{field}`")
        return found

    def _refuse_others(self, name: str, struct: StructInterface, value: Mapping[object, object]) -> None:
        known = [field for field, _ in struct.fields]
        for key in value:
            if key not in known:
                raise self._wrong(name, f"must be a `{struct.name}`, which has no field `{key}`")

    def _wrong(self, name: str, what: str) -> TesseraError:
        return failure(WRONG_KIND, f"argument `{name}` of `{self._function}` {what}")


def holds_operator(value: object) -> bool:
    """Whether an argument is an operator, or has one in it, or a function with what it captured of a call."""
    if isinstance(value, FunctionValue):
        return bool(value.items)
    if isinstance(value, StructValue):
        return any(map(holds_operator, vars(value).values()))
    if isinstance(value, Mapping):
        return any(map(holds_operator, value.values()))
    return any(map(holds_operator, value)) if isinstance(value, tuple | list) else isinstance(value, Operator)


def opened(kind: Kind) -> Kind:
    """The kind of a field in a struct of any sizes: the sizes of its arrays matter."""
    if isinstance(kind, str):
        return "open" if kind in ("tensor", "generic") else kind
    name = f"any {kind.kind}" if kind.kind in ("struct", "scaled") else kind.kind
    return Compound(name, tuple(map(opened, kind.items)), kind.name)


MASKED = "is a masked array, and its mask would be lost: `x.filled(...)` says what stands for what is masked"


def is_masked(value: object) -> bool:
    """Whether it is an array that says of some of its elements that they are not there."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def as_numpy(value: object) -> Array:
    """The value as an array of the host."""
    array = as_array(value)
    if isinstance(array, DeviceArray):
        raise failure(WRONG_DEVICE, f"this array lies on {array.device}", ("`x.numpy()` copies it to the host",))
    return array


def as_array(value: object) -> Array | DeviceArray:
    """The value as an array, where it lies; what speaks DLPack is viewed."""
    if is_masked(value):
        raise failure(WRONG_KIND, f"it {MASKED}")
    try:
        return viewed(value)
    except BufferError as error:
        raise failure(WRONG_KIND, f"a {type(value).__name__} gives no array that can be read: {error}") from None


def viewed(value: object) -> Array | DeviceArray:
    """The same. Raises BufferError for what gives no array."""
    import numpy as np

    if isinstance(value, DeviceArray):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    from tessera.dlpack import adopted

    found = adopted(value)
    if found is not None:
        return found
    try:
        return np.from_dlpack(value)  # type: ignore[arg-type]
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        from tessera.dlpack import narrow_array

        narrow = narrow_array(value)
        if narrow is None:
            raise BufferError(error) from None
        return narrow


def copied_in_order(array: Array, what: str) -> Array:
    """A copy whose elements lie in order."""
    import numpy as np

    try:
        return np.array(array, order="C", copy=True)
    except (MemoryError, ValueError):
        note = "an array whose elements do not lie in order is copied"
        message = f"no memory for a copy of {what}: {array.nbytes} bytes"
        raise failure(OUT_OF_MEMORY, message, () if array.flags.c_contiguous else (note,)) from None
