"""A host program for a GPU as plain data: buffers, kernels and what to launch in which order.

The compiler writes it, and with it the machine code that does what it says (`gpu_abi.py`). Sizes are expressions over
the symbols of the signature and, inside loops, over the names of their counters. A launch names its kernel in several
variants; the first whose conditions hold of the sizes runs, and all give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tessera.dtypes import numpy_dtype
from tessera.image import Image
from tessera.signature import Signature
from tessera.sizes import Size, SizeError


class Condition(NamedTuple):
    """`at_least` (left >= right), `divides` (left, at least 1, divides right), `equal`, `in_range` (left is a position
    in a dim of size right) or `fits` (left is below right in magnitude, where it has a value)."""

    kind: str
    left: Size
    right: Size

    def holds(self, symbols: Mapping[str, int]) -> bool:
        if self.kind == "fits":
            return self._fits(symbols)
        left, right = self.left.evaluate(symbols), self.right.evaluate(symbols)
        if self.kind == "divides":
            return left > 0 and right % left == 0
        if self.kind == "in_range":
            return 0 <= left < right
        return left >= right if self.kind == "at_least" else left == right

    def _fits(self, symbols: Mapping[str, int]) -> bool:
        try:
            return abs(self.left.evaluate(symbols)) < self.right.evaluate(symbols)
        except SizeError:
            return True  # it has no value, so that no call with these sizes comes to its use


class Argument(NamedTuple):
    """A parameter that is operand number `operand` of the launch."""

    operand: int


class Workspace(NamedTuple):
    """A parameter that is memory for this launch only."""

    bytes: Size


class TensorMap(NamedTuple):
    """A parameter that tells tensor copies how operand number `operand` is read block by block: blocks of rows and
    columns, the last two of its dims. The stride of the last dim is 1."""

    operand: int
    dims: tuple[Size, ...]
    strides: tuple[Size, ...]
    dtype: str
    box: tuple[int, int]


Parameter: TypeAlias = Argument | Workspace | TensorMap


class Kernel(NamedTuple):
    """One variant of a kernel. Its parameters are eight bytes each; the values of `symbols` follow them."""

    name: str
    code: Callable[[], str]
    """Gives the PTX. Of a fresh program it is made when first asked for: a call needs one variant of several."""
    threads: int
    programs: Size
    shared: Size
    """Bytes of shared memory."""
    parameters: tuple[Parameter, ...]
    symbols: tuple[str, ...]
    conditions: tuple[Condition, ...]
    persistent: bool
    """Whether a block of threads runs one program after the other, so that no more of them start than run at once."""
    early: bool
    """Whether it waits itself for the launch before it, and so may begin before that has ended."""
    tensors: int = 0
    """For how many tensors a launch runs it, if it is one of those: its parameters are then rows of one table, see
    `tensor_table`, and `programs` is the number for one of them."""
    machine_code: bytes = b""
    """What the PTX was assembled to for its architecture, if that was done ahead."""


class Buffer(NamedTuple):
    """Memory of a call. `role` is `input`, `output`, `workspace`, `status` (words in which kernels tell of bad
    indices), `constant` or `box` (a part of other memory, see `Box`); `slot` is the position of an input, an output or
    a table, and of a workspace the number under which others share its memory."""

    role: str
    slot: int
    sizes: tuple[Size, ...]
    dtype: str

    @property
    def itemsize(self) -> int:
        return numpy_dtype(self.dtype).itemsize

    def bytes_at(self, symbols: Mapping[str, int]) -> int:
        """Its size in bytes; none where a size has no value, so that no call with these sizes comes to its use."""
        total = self.itemsize
        try:
            for size in self.sizes:
                total *= max(0, size.evaluate(symbols))
        except SizeError:
            return 0
        return total


class Check(NamedTuple):
    """What must hold before a call does anything; `site` is the place in the signature that says so."""

    condition: Condition
    site: int


class Launch(NamedTuple):
    """`kernels` are positions of the variants, best first; `operands` positions of buffers. Of a launch for several
    tensors these are the operands of each in turn, and `lengths` has their lengths."""

    kernels: tuple[int, ...]
    operands: tuple[int, ...]
    lengths: tuple[Size, ...] = ()


NO_PROGRAM = 2**63 - 1
"""What stands in a table where there are no more tensors."""


def table_firsts(tensors: int) -> int:
    """How many words a table for so many tensors begins with: of each its first program, and more up to a power of two,
    so that a program finds its tensor by halving. Behind them a row for each: addresses, then values of symbols."""
    return 1 << (tensors - 1).bit_length()


class Select(NamedTuple):
    """The steps of the first predicate that holds; the last ones if none does."""

    predicates: tuple[Condition, ...]
    arms: tuple[Steps, ...]


class Loop(NamedTuple):
    """The steps for each count from `low` up to below `high`; inside, sizes may name `counter`."""

    counter: str
    low: Size
    high: Size
    body: Steps


class While(NamedTuple):
    """`test` and `body` in turn, as long as `test` leaves true in buffer number `flag`."""

    test: Steps
    flag: int
    body: Steps


class Cond(NamedTuple):
    """`yes` if buffer number `flag` holds true, else `no`."""

    flag: int
    yes: Steps
    no: Steps


class Swap(NamedTuple):
    """Two buffers, by number, change hands."""

    left: int
    right: int


class Box(NamedTuple):
    """Buffer number `target` is the memory that begins `offset` bytes into that of buffer number `source` now."""

    target: int
    source: int
    offset: Size


class Last(NamedTuple):
    """This iteration of the loop around is the last."""


class CheckIndices(NamedTuple):
    """Ends the call at `site` if a kernel has put a bad index into one of the words of buffer number `words`;
    `sizes[i]` is what index number i has to be below."""

    words: int
    sizes: tuple[Size, ...]
    site: int


class Assert(NamedTuple):
    """Ends the call at `site` unless buffer number `flag` holds true."""

    flag: int
    site: int


class Print(NamedTuple):
    """Writes the text of `site` with the values of the buffers `shown`; `sizes` are those of all their dims."""

    site: int
    shown: tuple[int, ...]
    sizes: tuple[Size, ...]


class Require(NamedTuple):
    """Ends the call at `site` unless the condition holds here; `shown` is the index that was written, if it is one."""

    condition: Condition
    site: int
    shown: Size | None


Step: TypeAlias = Launch | Select | Loop | While | Cond | Swap | Box | Last | CheckIndices | Assert | Print | Require
Steps: TypeAlias = tuple[Step, ...]


class GpuProgram(NamedTuple):
    """A function for GPUs of one architecture, such as `sm_90a`. All checks come before the first step; what only some
    calls come to is required there."""

    signature: Signature
    arch: str
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    checks: tuple[Check, ...]
    steps: Steps
    host: Callable[[str], Image]
    """Gives the steps as code for a machine, `x86_64` or `aarch64`."""
    tables: tuple[bytes, ...] = ()
    """What the buffers of role `constant` hold."""

    def status_words(self) -> tuple[dict[int, int], int]:
        """Where in one row of words each buffer of role `status` begins, and how many words there are."""
        starts, total = dict[int, int](), 0
        for number, buffer in enumerate(self.buffers):
            if buffer.role == "status":
                starts[number] = total
                total += buffer.bytes_at({}) // 8
        return starts, total

    def checked_places(self) -> tuple[CheckIndices, ...]:
        """The places whose kernels tell of bad indices, in the order of the program."""
        return tuple(dict.fromkeys(step for step in walk(self.steps) if isinstance(step, CheckIndices)))

    def looks(self) -> bool:
        """Whether the host looks at the device before all is started; at bad indices it looks behind it."""
        return any(isinstance(step, While | Cond | Assert | Print) for step in walk(self.steps))

    def tensor_maps(self) -> dict[tuple[tuple[int, ...], int, int], TensorMap]:
        """The tensor maps of all launches, by variants, kernel and position of the parameter. Code numbers them in this
        order."""
        launched = dict.fromkeys(step.kernels for step in walk(self.steps) if isinstance(step, Launch))
        return {
            (variants, kernel, position): parameter
            for variants in launched
            for kernel in variants
            for position, parameter in enumerate(self.kernels[kernel].parameters)
            if isinstance(parameter, TensorMap)
        }


def walk(steps: Steps) -> Iterator[Step]:
    """The steps, and all inside them."""
    for step in steps:
        yield step
        for inner in _inner(step):
            yield from walk(inner)


def _inner(step: Step) -> tuple[Steps, ...]:
    match step:
        case Select(_, arms):
            return arms
        case Loop(_, _, _, body):
            return (body,)
        case While(test, _, body):
            return (test, body)
        case Cond(_, yes, no):
            return (yes, no)
        case _:
            return ()
