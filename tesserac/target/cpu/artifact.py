"""The end of the compiler: a host program and its kernels' code become an artifact.

Enters: a `schedule.func`, the `cpu.kernel`s it launches, and the LLVM module that holds their code. Leaves: a
`tessera.artifact.Artifact`, which runs without the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from tessera.artifact import Artifact
from tessera.cache import DiskCache, cache_key, default_directory
from tessera.container import image_from_bytes, image_to_bytes
from tessera.image import Image
from tessera.returned import VALUE, as_they_come
from tessera.signature import Binding, Signature, Site, TensorSpec
from tessera.toolchain import FULL_OPTIMISATION, toolchain_key
from tesserac.base.source import Span
from tesserac.ir.core import Op, Value, attr_tuple, tuple_of
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import MemRefType, element
from tesserac.schedule.dialect import memory
from tesserac.schedule.host.program import memory_of
from tesserac.target.compile import Machine, data_layout
from tesserac.target.cpu.call.pystub import emit_method, stub_text
from tesserac.target.cpu.call.pytables import Shapes
from tesserac.target.cpu.host.entry import emit_host
from tesserac.target.cpu.host.launch_functions import WRITTEN_OUT
from tesserac.target.cpu.host.program import kernel_name
from tesserac.target.cpu.host.runners import code_of
from tesserac.target.cpu.host.sequential import LoopModules
from tesserac.target.cpu.host.workspace import BufferBytes
from tesserac.target.cpu.pool.image import pool_module
from tesserac.target.emit import Module
from tesserac.target.entry.status import HostSite
from tesserac.target.link import link
from tesserac.target.llvm_types import I64, PTR, VOID
from tesserac.target.objects import Objects
from tesserac.target.parallel import Job, Workers
from tesserac.target.sizes import size_of, solve_symbols

Begin = Callable[[Module], None]
"""Told after each kernel that is written: takes out of the module what need not wait for the others."""

Locate = Callable[[Span], tuple[str, int, int]]
"""File, line and column of a span; ("", 0, 0) where it has none."""


def build_artifact(
    write_kernels: Callable[[Begin], Module],
    functions: Sequence[Op],
    kernels: Mapping[str, Op],
    machine: Machine,
    buffer_bytes: BufferBytes,
    locate: Locate,
    shared: Sequence[str] = (),
    *,
    name: str,
    returns_tuple: bool,
) -> Artifact:
    """Links host code and the module that `write_kernels` gives, which holds the kernels' code under their names. The
    last of `functions` is the entry, the others are what it calls; `shared` is code of kernels that many programs have,
    in the module or made before; `name` is what it is called in messages. Host code that is apart is written first."""
    pool = begun_pool(machine)
    func, objects = functions[-1], Objects(machine, shared)
    apart = _host_module(functions, kernels, machine)
    host = apart or write_kernels(objects.kernel_written)
    loops = LoopModules(host.triple, host.layout, objects.loop_written)
    sites = emit_host(host, functions, kernels, buffer_bytes, loops)
    signature = signature_of(func, name, sites, locate, returns_tuple)
    emit_method(host, name)
    if apart is not None:
        objects.host_written(apart)
    module = host if apart is None else write_kernels(objects.kernel_written)
    stub = stub_text(_shapes(func, signature), module.triple, module.layout)
    code = link(objects.all_made(module, stub), host.tables | module.tables)
    returned = as_they_come(len(_outputs(func)), several=returns_tuple)
    return Artifact(signature, code, pool(), returned)


def _shapes(func: Op, signature: Signature) -> Shapes:
    """What the stub between Python and the entry depends on."""
    takes_out = signature.takes_out() and not signature.donated
    taken = tuple(signature.taken().items())
    return Shapes(tuple(_inputs(func)), tuple(_outputs(func)), signature.returns_tuple, taken, takes_out)


def _host_module(functions: Sequence[Op], kernels: Mapping[str, Op], machine: Machine) -> Module | None:
    """Where the host code goes if it is apart from that of the kernels, as it is where there are many launches. LLVM is
    told not to optimise it, but would still share registers out among all its values as it does in kernels, which takes
    the longer the more of them live in one function; apart it does not."""
    launches = [op for func in functions for op in func.walk() if op.name == "tile.launch"]
    if len(launches) <= WRITTEN_OUT:
        return None
    host = Module("tessera.host", machine.triple, data_layout(machine))
    for name in dict.fromkeys(code_of(kernels[kernel_name(launch)]) for launch in launches):
        host.declare(name, VOID, [PTR, I64, I64, I64], visibility="hidden")
    return host


NO_CODE = Image("", b"", b"", 0, 0, (), (), ())


def unsized_artifact(func: Op, demands: tuple[str, ...], *, name: str) -> Artifact:
    """What a caller must know of a `graph.func` that is compiled for each value of some sizes: how these follow from
    its arguments."""
    inputs = [memory_of(tensor_type(arg)) for arg in func.body.args]
    signature = _signature(func, name, inputs, (), (), returns_tuple=False)
    return Artifact(signature, NO_CODE, NO_CODE, VALUE, demands=demands)


def begun_pool(machine: Machine) -> Callable[[], Image]:
    """The pool for a machine, one for all functions of a process at any level. Where none is kept a thread makes it,
    beside what the first program of a compiler needs."""
    return _begun_pool(replace(machine, level=FULL_OPTIMISATION))


@cache
def _begun_pool(machine: Machine) -> Callable[[], Image]:
    kept, key = DiskCache(default_directory()), cache_key(["pool", repr(machine), toolchain_key()])
    try:
        there = image_from_bytes(kept.read(key) or b"")
    except ValueError:
        job = Workers().start(Job(str(pool_module(machine.triple, data_layout(machine))), machine))
        return cache(lambda: _kept_pool(job.object(), kept, key))
    return lambda: there


def _kept_pool(made: bytes, kept: DiskCache, key: str) -> Image:
    image = link([made])
    kept.write(key, image_to_bytes(image))
    return image


def signature_of(func: Op, name: str, sites: Sequence[HostSite], locate: Locate, returns_tuple: bool) -> Signature:
    places = tuple(Site(s.operator, s.text, *locate(s.span)) for s in sites)
    return _signature(func, name, _inputs(func), _outputs(func), places, returns_tuple=returns_tuple)


def _signature(
    func: Op,
    name: str,
    inputs: Sequence[MemRefType],
    outputs: Sequence[MemRefType],
    sites: tuple[Site, ...],
    *,
    returns_tuple: bool,
) -> Signature:
    names = attr_tuple(func, "params", str)
    equations = solve_symbols([m.dims for m in inputs])
    return Signature(
        name=name,
        parameters=tuple(_spec(p, m) for p, m in zip(names, inputs, strict=True)),
        results=tuple(_spec("", m) for m in outputs),
        returns_tuple=returns_tuple,
        symbols=tuple(sorted(e.symbol for e in equations)),
        bindings=tuple(
            Binding(e.symbol, e.parameter, e.axis, size_of(e.factor), size_of(e.scale), size_of(e.offset))
            for e in equations
        ),
        sites=sites,
        donated=tuple_of(func.attrs.get("donated", ()), int),
        numerics=str(func.attrs.get("numerics", "")),
    )


def _inputs(func: Op) -> list[MemRefType]:
    return [memory(arg) for arg in func.body.args]


def _outputs(func: Op) -> list[MemRefType]:
    results: Sequence[Value] = func.body.terminator.operands
    return [memory(value) for value in results]


def _spec(name: str, memref: MemRefType) -> TensorSpec:
    sizes = tuple(size_of(dim) for dim in memref.dims)
    return TensorSpec(name, sizes, memref.dtype.numpy_name, element(memref.dtype, memref.policy))
