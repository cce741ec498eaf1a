"""A function for a GPU as a file: what `tesserac build --target cuda` writes and the runtime reads without a compiler.

Enters: a `GpuArtifact`, or the bytes of one. Leaves: the other. Named tuples are rows of JSON as they stand; only the
steps, of which there are several kinds, carry their kind in front.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import NamedTuple, TypeAlias

from tessera.artifact import Artifact, read_signature, unreadable
from tessera.container import Row, image_of, image_row, pack, unpack
from tessera.errors import WRONG_MACHINE, failure
from tessera.gpu_program import (
    Argument,
    Assert,
    Box,
    Buffer,
    Check,
    CheckIndices,
    Cond,
    Condition,
    GpuProgram,
    Kernel,
    Last,
    Launch,
    Loop,
    Parameter,
    Print,
    Require,
    Select,
    Step,
    Steps,
    Swap,
    TensorMap,
    While,
    Workspace,
)
from tessera.image import Image
from tessera.keeping import side_by_side
from tessera.loader import machine
from tessera.returned import Returned, read_returned
from tessera.signature import Signature, Site
from tessera.sizes import read_size

_KIND = "gpu function 6"
MOST_MADE = 8
"""Kernels whose code is made at once."""
FAST = 1
"""The level at which PTX is compressed, to a fifth; others take several times as long for a tenth less."""
MACHINES = ("aarch64", "x86_64")
"""Those that a function in a bundle may be called on."""


class GpuArtifact(NamedTuple):
    """Beside its program a function has what `Artifact` has; `places` are the numbers of the GPUs that parts of it are
    placed on by name."""

    program: GpuProgram
    returned: Returned
    params: tuple[str, ...] = ()
    demands: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    machines: tuple[str, ...] = ()
    """The machines that it is kept for; none is this one."""

    @property
    def signature(self) -> Signature:
        return self.program.signature

    def with_sites(self, sites: Iterable[Site]) -> GpuArtifact:
        placed = self.signature._replace(sites=tuple(sites))
        return self._replace(program=self.program._replace(signature=placed))

    def is_complete(self) -> bool:
        """Whether there is no code left to make."""
        return not self.program.kernels

    def make_code(self, tell: Callable[[int, int], object] = lambda done, count: None) -> None:
        """Makes the PTX of all kernels, as far as no call has: waiting for it takes no processor. Behind each, `tell`
        has how many are done, and how many there are."""
        makers, done = [kernel.code for kernel in self.program.kernels], count(1)

        def make(code: Callable[[], str]) -> None:
            code()
            tell(next(done), len(makers))

        side_by_side([partial(make, code) for code in makers], MOST_MADE)

    def assembled(self, assemble: Callable[[str], bytes]) -> GpuArtifact:
        """With machine code beside the PTX of all kernels, so that no driver assembles it in a first call."""
        kernels = self.program.kernels
        made = [b""] * len(kernels)

        def make(number: int) -> None:
            made[number] = assemble(kernels[number].code())

        side_by_side([partial(make, number) for number in range(len(kernels))], MOST_MADE)
        with_code = (kernel._replace(machine_code=code) for kernel, code in zip(kernels, made, strict=True))
        return self._replace(program=self.program._replace(kernels=tuple(with_code)))

    def to_bytes(self) -> bytes:
        """With the PTX of all kernels, and the machine code of those that have it."""
        program = self.program
        kernels = [_kernel_row(kernel) for kernel in program.kernels]
        images = [program.host(name) for name in self.machines or (machine(),)] if not self.demands else []
        content = [
            _KIND, program.signature, program.arch, program.buffers, kernels, program.checks, _rows(program.steps),
            list(map(image_row, images)), self.returned, self.params, self.demands, self.places,
        ]  # fmt: skip
        codes = [zlib.compress(kernel.code().encode(), FAST) for kernel in program.kernels]
        codes += [zlib.compress(kernel.machine_code, FAST) for kernel in program.kernels]
        parts = [part for image in images for part in (image.text, image.data)]
        return pack(content, [*codes, *parts, *program.tables])


AnyArtifact: TypeAlias = Artifact | GpuArtifact


def read_gpu_artifact(data: bytes, source: str) -> GpuArtifact:
    """The artifact in `data`; `source` names it in errors."""
    try:
        content, blobs = unpack(data)
        if content[0] != _KIND:
            raise ValueError(f"it holds {content[0]!r}, not a function for a GPU")
        *program, returned, params, demands, places = content[1:]
        made = _program(program, blobs)
        return GpuArtifact(made, read_returned(returned), tuple(params), tuple(demands), tuple(places))
    except (ValueError, TypeError, IndexError, KeyError, zlib.error) as error:
        raise unreadable(source, str(error)) from None


def _program(row: Row, blobs: list[bytes]) -> GpuProgram:
    signature, arch, buffers, kernels, checks, steps, hosts = row
    codes, rest = list(map(zlib.decompress, blobs[: 2 * len(kernels)])), blobs[2 * len(kernels) :]
    texts, machine_codes = codes[: len(kernels)], codes[len(kernels) :]
    parts, tables = rest[: 2 * len(hosts)], rest[2 * len(hosts) :]
    images = [image_of(host, *parts[2 * i : 2 * i + 2]) for i, host in enumerate(hosts)]
    return GpuProgram(
        read_signature(signature),
        arch,
        tuple(map(_buffer, buffers)),
        tuple(_kernel(row, ptx.decode(), code) for row, ptx, code in zip(kernels, texts, machine_codes, strict=True)),
        tuple(Check(_condition(condition), site) for condition, site in checks),
        _steps(steps),
        _host_of({image.machine: image for image in images}),
        tuple(tables),
    )


def _host_of(images: dict[str, Image]) -> Callable[[str], Image]:
    def host(name: str) -> Image:
        if name not in images:
            made = " and ".join(images) or "no machine"
            raise failure(WRONG_MACHINE, f"compiled to be called on {made}, but this machine is {name}")
        return images[name]

    return host


# --- rows -----------------------------------------------------------------------------------------------------------


def _kernel_row(kernel: Kernel) -> Row:
    parameters = [[type(p).__name__, *p] for p in kernel.parameters]
    return [
        kernel.name, kernel.threads, kernel.programs, kernel.shared, parameters, kernel.symbols, kernel.conditions,
        kernel.persistent, kernel.early, kernel.tensors,
    ]  # fmt: skip


def _step_row(step: Step) -> Row:
    kind = type(step).__name__
    match step:
        case Launch() | Swap() | Box() | Last() | CheckIndices() | Assert() | Print():
            return [kind, *step]
        case Select(predicates, arms):
            return [kind, predicates, [_rows(arm) for arm in arms]]
        case Loop(counter, low, high, body):
            return [kind, counter, low, high, _rows(body)]
        case While(test, flag, body):
            return [kind, _rows(test), flag, _rows(body)]
        case Cond(flag, yes, no):
            return [kind, flag, _rows(yes), _rows(no)]
        case Require(condition, site, shown):
            return [kind, condition, site, shown]


def _rows(steps: Steps) -> Row:
    return [_step_row(step) for step in steps]


# --- and back -------------------------------------------------------------------------------------------------------


def _buffer(row: Row) -> Buffer:
    role, slot, sizes, dtype = row
    return Buffer(role, slot, tuple(map(read_size, sizes)), dtype)


def _condition(row: Row) -> Condition:
    kind, left, right = row
    return Condition(kind, read_size(left), read_size(right))


def _kernel(row: Row, ptx: str, machine_code: bytes) -> Kernel:
    name, threads, programs, shared, parameters, symbols, conditions, persistent, early, tensors = row
    return Kernel(
        name,
        lambda: ptx,
        threads,
        read_size(programs),
        read_size(shared),
        tuple(map(_parameter, parameters)),
        tuple(symbols),
        tuple(map(_condition, conditions)),
        persistent,
        early,
        tensors,
        machine_code,
    )


def _parameter(row: Row) -> Parameter:
    kind, *fields = row
    return _PARAMETERS[kind](fields)


def _tensor_map(row: Row) -> TensorMap:
    operand, dims, strides, dtype, (height, width) = row
    sizes = tuple(map(read_size, dims)), tuple(map(read_size, strides))
    return TensorMap(operand, *sizes, dtype, (height, width))


_PARAMETERS: dict[str, Callable[[Row], Parameter]] = {
    "Argument": lambda row: Argument(*row),
    "Workspace": lambda row: Workspace(read_size(row[0])),
    "TensorMap": _tensor_map,
}


def _steps(rows: Row) -> Steps:
    return tuple(_STEPS[kind](fields) for kind, *fields in rows)


_STEPS: dict[str, Callable[[Row], Step]] = {
    "Swap": lambda row: Swap(*row),
    "Launch": lambda row: Launch(tuple(row[0]), tuple(row[1]), tuple(map(read_size, row[2]))),
    "Select": lambda row: Select(tuple(map(_condition, row[0])), tuple(map(_steps, row[1]))),
    "Loop": lambda row: Loop(row[0], read_size(row[1]), read_size(row[2]), _steps(row[3])),
    "While": lambda row: While(_steps(row[0]), row[1], _steps(row[2])),
    "Require": lambda row: Require(_condition(row[0]), row[1], None if row[2] is None else read_size(row[2])),
    "Cond": lambda row: Cond(row[0], _steps(row[1]), _steps(row[2])),
    "Box": lambda row: Box(row[0], row[1], read_size(row[2])),
    "Last": lambda row: Last(),
    "CheckIndices": lambda row: CheckIndices(row[0], tuple(map(read_size, row[1])), row[2]),
    "Assert": lambda row: Assert(*row),
    "Print": lambda row: Print(row[0], tuple(row[1]), tuple(map(read_size, row[2]))),
}
