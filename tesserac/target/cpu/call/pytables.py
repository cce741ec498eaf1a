"""What the stub of a function knows of its parameters and results, as constant tables that loops walk.

Enters: the memory that a call takes and gives. Leaves: tables of small integers in the module, one row per parameter or
result; sizes and dtypes are numbers of the distinct ones, which the stub computes once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from tessera import numpy_abi
from tesserac.base.dataclass import dataclass
from tesserac.ir.types import MemRefType
from tesserac.target.cpu.call.pynumbers import NO_NUMBER, number_kind
from tesserac.target.emit import Module
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I32, Value, array, const_int
from tesserac.types.dims import Dim

FRESH = -1
"""In place of a parameter: the result takes the memory of none."""


@dataclass(frozen=True)
class Shapes:
    """What a call takes and gives. `taken` are the results that take the memory of a parameter, with that parameter;
    `takes_out` says whether the caller may give the memory of all of them."""

    parameters: tuple[MemRefType, ...]
    results: tuple[MemRefType, ...]
    returns_tuple: bool
    taken: tuple[tuple[int, int], ...]
    takes_out: bool


@dataclass(frozen=True)
class Table:
    """A constant column of 32-bit numbers."""

    address: Value
    numbers: Sequence[int]

    def at(self, b: Builder, row: Value) -> Value:
        if row.number is not None:
            return const_int(I32, self.numbers[row.number])
        return b.load(I32, b.gep(I32, self.address, row), 4)


class Tables:
    """`taken_sizes` are the distinct sizes of parameters, `given_sizes` those of results. Sizes are numbered through
    both."""

    def __init__(self, module: Module, shapes: Shapes) -> None:
        parameters, results = shapes.parameters, shapes.results
        self._module = module
        self.most_dims = max((len(r.dims) for r in results), default=0)
        taken = _numbered(d for p in parameters for d in p.dims)
        given = _numbered(d for r in results for d in r.dims)
        self.taken_sizes, self.given_sizes = list(taken), list(given)
        dtypes = {m.dtype.numpy_name: 0 for m in (*parameters, *results)}
        self.dtypes = list(dtypes)
        dims = [taken[d] for p in parameters for d in p.dims]
        new = [len(taken) + given[d] for r in results for d in r.dims]
        of = dict(shapes.taken)
        written = set(of.values())
        self.size_of = self._table("size_of", [*dims, *new])
        self.flags = self._table("flags", [needed_flags(written=place in written) for place in range(len(parameters))])
        scalars = [not p.dims and place not in written for place, p in enumerate(parameters)]
        kinds = [number_kind(p.dtype) if scalar else NO_NUMBER for p, scalar in zip(parameters, scalars, strict=True)]
        self.number_of = self._table("number_of", kinds)
        self.bytes_of = self._table("bytes_of", [p.dtype.bytes for p in parameters])
        self.result_bytes_of = self._table("result_bytes_of", [r.dtype.bytes for r in results])
        self.rank, self.first_size, self.dtype_of = self._shapes("parameter", parameters, 0)
        made = self._shapes("result", results, len(dims))
        self.result_rank, self.result_first_size, self.result_dtype_of = made
        self.result_of = self._table("result_of", [of.get(place, FRESH) for place in range(len(results))])

    def _shapes(self, name: str, memories: Sequence[MemRefType], first: int) -> tuple[Table, Table, Table]:
        """Per row its rank, the place of its first size in `size_of`, and its dtype."""
        ranks = [len(m.dims) for m in memories]
        starts = [first + before for before in accumulate([0, *ranks])][: len(ranks)]
        dtypes = [self.dtypes.index(m.dtype.numpy_name) for m in memories]
        columns = (("rank", ranks), ("first_size", starts), ("dtype_of", dtypes))
        rank, start, dtype = (self._table(f"{name}.{column}", numbers) for column, numbers in columns)
        return rank, start, dtype

    def takes_number(self, row: Value) -> bool:
        """Whether a parameter, or any where the row is computed, may be a number that is not in an array."""
        numbers = self.number_of.numbers if row.number is None else [self.number_of.numbers[row.number]]
        return any(number != NO_NUMBER for number in numbers)

    def _table(self, name: str, numbers: Sequence[int]) -> Table:
        content = ", ".join(f"i32 {number}" for number in numbers) or "i32 0"
        type_ = array(I32, max(len(numbers), 1))
        address = self._module.variable(f"tessera.stub.{name}", type_, f"[{content}]", constant=True, align=4)
        return Table(address, numbers)


def _numbered(dims: Iterable[Dim]) -> dict[Dim, int]:
    return {dim: number for number, dim in enumerate(dict.fromkeys(dims))}


def needed_flags(*, written: bool) -> int:
    """What NumPy must say of an array that compiled code reads, or writes, as it lies."""
    return numpy_abi.C_CONTIGUOUS | numpy_abi.ALIGNED | (numpy_abi.WRITABLE if written else 0)
