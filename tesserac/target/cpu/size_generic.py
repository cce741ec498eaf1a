"""Kernels that do the same with other sizes have one code, which is given all of its sizes.

    cpu.kernel @f$3 {grid = [ceil_div(M*N, 2048)]}     cpu.kernel @f$3.any {grid = [s00], symbols = ["s00", "s01"]}
      memref<[M*N], f64>                                 memref<[s01], f64>
    cpu.kernel @f$7 {grid = [ceil_div(K, 2048)]}       and for both `like = "f$3.any"`, with what is given for s00, s01:
      memref<[K], f64>                                 [ceil_div(M*N, 2048), M*N] and [ceil_div(K, 2048), K]

Enters: a module of lowered kernels with their host programs. Leaves: for kernels that are alike one more, whose code is
theirs, and what each gives for its sizes. A factorisation has a hundred launches, most of which copy, fill or subtract
one block after another. Code depends on which expressions for sizes are equal, and on nothing else about them; numbers
stay numbers. Sizes that a launch decides have names that say what they are, and keep them: only what stands beside them
is given. Kernels in loops that are compiled as one keep their own code, in which LLVM sees the sizes of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.ir.core import Attr, Module, Op, clone_op
from tesserac.ir.meaning import Meanings
from tesserac.ir.types import MemRefType, Type
from tesserac.target.cpu.host.program import kernel_name
from tesserac.target.cpu.host.sequential import launched_outside_loops
from tesserac.tile.dialect import CODE, GIVEN, LIKE
from tesserac.types.dims import Dim
from tesserac.types.polynomial import of_atom
from tesserac.types.terms import Atom, Opaque

NAMES = ("sym_name", "symbols")
"""Attributes that say what a kernel and its sizes are called."""


def without_sizes(module: Module) -> Module:
    """The module, in which kernels that are alike have one code."""
    plain, alike = Meanings(), dict[str, list[_Outline]]()
    for kernel in _outside_loops(module):
        outline = _Outline(kernel, plain)
        alike.setdefault(outline.said, []).append(outline)
    made = {first.kernel: first.code() for first, *others in alike.values() if others}
    for outline in (outline for first, *others in alike.values() if others for outline in (first, *others)):
        like = made[alike[outline.said][0].kernel].symbol
        outline.kernel.attrs |= {LIKE: like, GIVEN: outline.sizes.given}
    module.ops[:] = [op for old in module.ops for op in ((made[old], old) if old in made else (old,))]
    return module


def _outside_loops(module: Module) -> list[Op]:
    """The kernels that are launched by host programs alone."""
    hosts = [op for op in module.ops if op.name != "cpu.kernel"]
    outside = {name for host in hosts for name in launched_outside_loops(host)}
    inside = {name for host in hosts for name in _launched_in_loops(host)}
    kernels = (op for op in module.ops if op.name == "cpu.kernel" and CODE not in op.attrs)
    return [kernel for kernel in kernels if kernel.symbol in outside - inside]


def _launched_in_loops(host: Op) -> Iterator[str]:
    for loop in host.walk():
        if "sequential" in loop.attrs:
            yield from (kernel_name(op) for op in loop.walk() if op.name == "tile.launch")


class _Outline:
    """A kernel, what its code depends on, and the sizes that it is for."""

    def __init__(self, kernel: Op, plain: Meanings) -> None:
        self.kernel, self.sizes = kernel, _Sizes()
        meanings = _Unsized(self.sizes, plain)
        own = [f"{name} = {meanings.printed(value)}" for name, value in kernel.attrs.items() if name not in NAMES]
        self.said = "\n".join([*own, meanings.of_body(kernel.body), *self.sizes.of_launch])

    def code(self) -> Op:
        """A copy that calls its sizes by their places."""
        code = clone_op(self.kernel, {})
        for op in code.walk():
            op.attrs.update({name: _renamed(value, self.sizes) for name, value in op.attrs.items()})
            for value in (*op.results, *(arg for region in op.regions for arg in region.block.args)):
                if isinstance(value.type, MemRefType):
                    dims, strides = (tuple(map(self.sizes.name, of)) for of in (value.type.dims, value.type.strides))
                    value.type = replace(value.type, dims=dims, strides=strides)
        code.attrs |= {"sym_name": f"{self.kernel.symbol}.any", "symbols": self.sizes.names}
        return code


class _Sizes:
    """The sizes of a kernel, in the order in which it mentions them."""

    def __init__(self) -> None:
        self._places: dict[Dim, Dim] = {}
        self.of_launch: dict[str, Dim] = {}
        """Those that a launch decides."""

    @property
    def given(self) -> tuple[Dim, ...]:
        """In the order of their names."""
        return tuple(size for size, _ in self._by_name())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for _, name in self._by_name())

    def _by_name(self) -> list[tuple[Dim, Dim]]:
        each = [*self._places.items(), *((size, size) for size in self.of_launch.values())]
        return sorted(each, key=lambda pair: str(pair[1]))

    def name(self, size: Dim) -> Dim:
        """What the code calls it."""
        if size.constant is not None:
            return size
        if _is_of_launch(size):
            return size.map_atoms(self._atom)
        if size not in self._places:
            self._places[size] = Dim.sym(f"s{len(self._places):02}")
        return self._places[size]

    def _atom(self, atom: Atom) -> Dim:
        size = of_atom(atom)
        if not _is_of_launch(size):
            return self.name(size)
        if isinstance(atom, Opaque):
            return of_atom(Opaque(atom.function, tuple(map(self.name, atom.args))))
        return self.of_launch.setdefault(str(size), size)


def _is_of_launch(size: Dim) -> bool:
    return any("." in name for name in size.symbols())


class _Unsized(Meanings):
    """What a kernel does, with its sizes called as its code does."""

    def __init__(self, sizes: _Sizes, plain: Meanings) -> None:
        super().__init__()
        self._name, self._plain = sizes.name, plain

    def shown(self, value: Attr | Type) -> str:
        if isinstance(value, Dim):
            return str(self._name(value))
        if isinstance(value, tuple):
            return f"[{', '.join(map(self.printed, value))}]"
        if isinstance(value, MemRefType):
            dims, strides = (", ".join(map(self.shown, sizes)) for sizes in (value.dims, value.strides))
            element = f"{value.dtype.name} {value.policy}"
            return f"memref<[{dims}], [{strides}], {element}, {value.space}, {value.layout}>"
        return self._plain.printed(value)


def _renamed(value: Attr, sizes: _Sizes) -> Attr:
    if isinstance(value, Dim):
        return sizes.name(value)
    if isinstance(value, tuple):
        return tuple.__new__(type(value), [_renamed(item, sizes) for item in value])
    return value
