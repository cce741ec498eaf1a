"""What a module offers, and what the runtime asks of the compiler.

The compiler is reached through `Compiler` alone. It is called for what the cache does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from tessera.container import Row, pack, unpack
from tessera.errors import Place
from tessera.signature import TensorSpec, read_tensor

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.gpu_artifact import AnyArtifact
    from tessera.tracing import Wanted

_KIND = "module 5"


class Missing(NamedTuple):
    """Stands where a parameter has no default."""


MISSING = Missing()


class Computed(NamedTuple):
    """Stands where a default is a tensor: what this function of the module gives, which takes nothing."""

    function: str


Static: TypeAlias = int | float | bool | str | None


class ArrayKind(NamedTuple):
    """What a generic parameter takes from its argument: NumPy's name of the dtype, and the rank. Where no dims are
    declared at all, `sizes` numbers the sizes of the call: equal ones have one number, a size of 1 is UNIT."""

    dtype: str
    rank: int
    sizes: tuple[int, ...] = ()


UNIT, APART = -1, -2
"""Numbers of sizes: of a size that is 1, and of one that no array without declared dims has."""
_EXACT = -16


def exact_number(size: int) -> int:
    """The number of a size that is known while compiling, as all are in a call with an operator: what that takes and
    gives may be a product of the sizes of its parts."""
    return _EXACT - size


def exact_size(number: int) -> int | None:
    """The size that such a number stands for; None for any other number."""
    return _EXACT - number if number <= _EXACT else None


class Number(NamedTuple):
    """A float given for a parameter without a type: a value of the run."""


class Declared(NamedTuple):
    """Stands where the declaration says all that compiling needs to know."""


OPERATOR = "operator "
"""What the name of a `Tree` starts with where it is an operator; its expression follows."""


OF_FUNCTION = "function "
"""What it starts with where it is a function of a program; which one follows."""
DICT = "dict "
"""What it starts with where it is a dict; its keys follow."""


class Tree(NamedTuple):
    """The choices for the parts of a struct of that name, of an operator, of what a function captured, of a dict, or,
    without a name, of a tuple or list."""

    struct: str
    items: tuple[Choice, ...]


Choice: TypeAlias = "Static | ArrayKind | Number | Declared | Tree"
Specialization: TypeAlias = tuple[tuple[str, Choice], ...]
"""The compile-time arguments of one compilation, by parameter name, in the order of the parameters."""


_SIZE = "#"


def with_sizes(chosen: Specialization, sizes: Mapping[str, int]) -> Specialization:
    """The same for sizes that are numbers in this compilation; `#` keeps their names apart from parameters."""
    return (*chosen, *((_SIZE + name, size) for name, size in sorted(sizes.items())))


def chosen_sizes(chosen: Specialization) -> dict[str, int]:
    """The sizes among the choices."""
    sizes = [(name, choice) for name, choice in chosen if name.startswith(_SIZE)]
    return {name.removeprefix(_SIZE): choice for name, choice in sizes if isinstance(choice, int)}


_RELATED = "="


def related_name(leaf: int) -> str:
    """Under which choice the sizes of a declared array stand, by its place among all arrays of the call: those that an
    array without declared dims has too are one size in this compilation."""
    return f"{_RELATED}{leaf}"


def chosen_relations(chosen: Specialization) -> dict[int, tuple[int, ...]]:
    """The numbers of the sizes of declared arrays, by place."""
    found = [(name, choice) for name, choice in chosen if name.startswith(_RELATED)]
    return {int(name[len(_RELATED) :]): choice.sizes for name, choice in found if isinstance(choice, ArrayKind)}


class Compound(NamedTuple):
    """A kind made of others: `struct` (called `name`; its fields stand in the module's interface, their kinds
    in `items` where those of this use differ), `any struct` (the
    same, of any sizes), `list`, `tuple`, `optional`, `scaled` (numbers and scales) or `any scaled` (of any sizes)."""

    kind: str
    items: tuple[Kind, ...] = ()
    name: str = ""


Kind: TypeAlias = "str | Compound"
"""`tensor` (declared dtype and rank), `float` (a number of the run), `generic` (dtype and rank follow the argument),
`open` (nothing is declared), `int`, `bool`, `str` (values known when compiling), or a compound of these."""


class Parameter(NamedTuple):
    name: str
    kind: Kind
    keyword_only: bool = False
    default: Static | Missing | Computed = MISSING


class FunctionInterface(NamedTuple):
    name: str
    parameters: tuple[Parameter, ...]
    doc: str = ""


TEST_PREFIX = "test "
"""What the names of test blocks start with, among the functions of a module; no other name has a space."""


class StructInterface(NamedTuple):
    """`sizes` are the names of its sizes; `seen` says for each in which field and axis it can be read, if in any.
    `initial` are the fields that have an initial value."""

    name: str
    sizes: tuple[str, ...]
    seen: tuple[tuple[str, int] | None, ...]
    fields: tuple[tuple[str, Kind], ...]
    initial: tuple[str, ...]
    methods: tuple[str, ...]
    doc: str = ""


class ParamInterface(NamedTuple):
    """A weight of the module. `initial` says that it has a value where none is set; `text` is its type, for people.
    `tensor` says what a value has to be where it is one array."""

    name: str
    kind: Kind
    initial: bool
    text: str
    tensor: TensorSpec | None = None


class ModuleInterface(NamedTuple):
    """`reads` are the other files that the module is made of, each with the SHA-256 of its content. `hidden` are the
    functions that structs are made of: methods `MLP.apply`, initialisers `MLP.w1$init`, constructors
    `MLP$new`; and test blocks, `test TITLE`."""

    functions: tuple[FunctionInterface, ...]
    reads: tuple[tuple[str, str], ...] = ()
    structs: tuple[StructInterface, ...] = ()
    hidden: tuple[FunctionInterface, ...] = ()
    params: tuple[ParamInterface, ...] = ()

    def to_bytes(self) -> bytes:
        functions, hidden = ([_function_row(f) for f in group] for group in (self.functions, self.hidden))
        return pack([_KIND, functions, self.reads, self.structs, hidden, self.params], [])


def is_declared(kind: Kind, structs: Mapping[str, StructInterface]) -> bool:
    """Whether the declaration says all that compiling needs to know."""
    if isinstance(kind, str):
        return kind in ("tensor", "float")
    if kind.kind == "struct":
        fields = kind.items or [field for _, field in structs[kind.name].fields]
        return all(is_declared(field, structs) for field in fields)
    return kind.kind == "scaled" or (kind.kind == "tuple" and all(is_declared(item, structs) for item in kind.items))


class Source(NamedTuple):
    """A program; a `release` of it is compiled without the run-time checks that `assert` makes, a `debug` build with
    others, for inf and NaN."""

    path: str
    text: str
    release: bool = False
    debug: bool = False


class Content(NamedTuple):
    """What a function is compiled from. The `meaning` is equal where the code is, but for the `places` of the program
    that messages may tell of; these come in an order that follows from the meaning."""

    meaning: str
    places: tuple[Place, ...]


class Compiler(Protocol):
    """All methods raise TesseraError, with the rendered diagnostics, for mistakes in the source."""

    def interface(self, source: Source) -> ModuleInterface: ...

    def content(self, source: Source, name: str, specialization: Specialization, target: str) -> Content: ...

    def compile_function(
        self, source: Source, name: str, specialization: Specialization, target: str
    ) -> AnyArtifact: ...

    def trace(
        self, source: Source, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted
    ) -> None: ...


def read_interface(data: bytes) -> ModuleInterface:
    """Raises ValueError where `data` is not an interface."""
    content, _ = unpack(data)
    kind, *rows = content
    if kind != _KIND:
        raise ValueError(f"it holds {kind!r}, not a module")
    functions, reads, structs, hidden, params = rows
    return ModuleInterface(
        tuple(map(_function, functions)),
        tuple((path, digest) for path, digest in reads),
        tuple(map(_struct, structs)),
        tuple(map(_function, hidden)),
        tuple(map(_param, params)),
    )


def _param(row: Row) -> ParamInterface:
    name, kind, initial, text, tensor = row
    return ParamInterface(name, _kind(kind), initial, text, None if tensor is None else read_tensor(tensor))


def _function_row(function: FunctionInterface) -> Row:
    rows = [
        [p.name, p.kind, p.keyword_only, [] if isinstance(p.default, Missing) else [p.default]]
        for p in function.parameters
    ]
    return [function.name, rows, function.doc]


def functions_text(functions: Sequence[FunctionInterface]) -> str:
    """Functions as a text, which `read_functions` reads."""
    return json.dumps([_function_row(function) for function in functions], separators=(",", ":"))


def read_functions(text: str) -> tuple[FunctionInterface, ...]:
    return tuple(map(_function, json.loads(text)))


def _function(row: Row) -> FunctionInterface:
    name, rows, doc = row
    parameters = tuple(Parameter(n, _kind(kind), only, *map(_default, default)) for n, kind, only, default in rows)
    return FunctionInterface(name, parameters, doc)


def _default(row: Static | Row) -> Static | Computed:
    return Computed(*row) if isinstance(row, list | tuple) else row


def _struct(row: Row) -> StructInterface:
    name, sizes, seen, fields, initial, methods, doc = row
    places = tuple(None if place is None else (place[0], place[1]) for place in seen)
    kinds = tuple((field, _kind(kind)) for field, kind in fields)
    return StructInterface(name, tuple(sizes), places, kinds, tuple(initial), tuple(methods), doc)


def _kind(row: str | Row) -> Kind:
    if isinstance(row, str):
        return row
    kind, items, name = row
    return Compound(kind, tuple(map(_kind, items)), name)
