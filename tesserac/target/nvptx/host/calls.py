"""What every step of a compiled host program calls: launches and reads, through the driver's functions.

    void tessera.start(ptr call, i64 kernel, i64 programs, i64 threads, i64 shared, i1 persistent, i1 early,
                       ptr values, i64 n)
        launches a kernel, if there are programs; loads it first where it is not
    i64 tessera.scratch(ptr call, i64 bytes)
        memory that a launch has for itself
    i32 tessera.fetch(ptr call, ptr source, ptr target, i64 bytes)
        waits, reads memory of the device, and sees whether kernels have told of bad indices
    i32 tessera.replay(ptr call, ptr graph, ptr stream)
        see `tessera.gpu_abi`

Once something has failed, launches do nothing, and what is read next ends the call: the code of a launch needs no way
out. All words of the block `call` have their names in `tessera.gpu_abi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tessera import cuda_driver, gpu_abi
from tessera.gpu_effects import NO_BAD_INDEX
from tessera.gpu_program import CheckIndices
from tessera.signature import STATUS_BAD_INDEX
from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.flow import for_loop, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, PTR, VOID, Value, array, const_i64, const_int, zero
from tesserac.target.nvptx.blocks import EARLY_BLOCKS
from tesserac.tile.gpu.model.errors import LoweringError

MOST_PROGRAMS = 2**31 - 1
"""Blocks of threads in one launch."""
_CONFIG_WORDS = 7
"""Of `CUlaunchConfig`, see `tessera.cuda_driver`."""
_STREAM_AT = 4
_EARLY = (6, 0, 1, *[0] * 15)
"""`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION` as a `CUlaunchAttribute`, in words of 32 bits."""


def word(b: Builder, call: Value, number: Value | int) -> Value:
    """The address of a word of the block."""
    return b.gep(I64, call, number)


def read(b: Builder, call: Value, number: Value | int) -> Value:
    return b.load(I64, word(b, call, number), 8)


def read_pointer(b: Builder, call: Value, number: int) -> Value:
    return b.load(PTR, word(b, call, number), 8)


def count(b: Builder, call: Value, number: int, more: Value) -> None:
    b.store(b.add(read(b, call, number), more), word(b, call, number), 8)


def fail(b: Builder, call: Value, code: int, at: Value, value: Value) -> None:
    """Says why the call ends, unless something was said before."""

    def say() -> None:
        for number, said in ((gpu_abi.FAILED, const_i64(code)), (gpu_abi.FAILED_AT, at), (gpu_abi.FAILED_VALUE, value)):
            b.store(said, word(b, call, number), 8)

    if_then(b, b.icmp("eq", read(b, call, gpu_abi.FAILED), const_i64(0)), say)


def driver(b: Builder, call: Value, name: str, arguments: Sequence[Value]) -> None:
    """Calls a function of the driver; what it says is kept where it fails."""
    status = call_imported(b, f"driver.{name}", arguments, I32)
    at = const_i64(gpu_abi.DRIVER_CALLS.index(name))
    told = partial(fail, b, call, gpu_abi.DRIVER_FAILED, at, b.cast("zext", status, I64))
    if_then(b, b.icmp("ne", status, const_int(I32, 0)), told)


def has_failed(b: Builder, call: Value) -> Value:
    return b.icmp("ne", read(b, call, gpu_abi.FAILED), const_i64(0))


def failure_code(b: Builder, call: Value) -> Value:
    """What an entry returns."""
    return b.cast("trunc", read(b, call, gpu_abi.FAILED), I32)


# --- launches -------------------------------------------------------------------------------------------------------


def emit_start(module: Module, most_parameters: int) -> Function:
    parameters = [PTR, I64, I64, I64, I64, I1, I1, PTR, I64]
    function = module.function("tessera.start", VOID, parameters, attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    call, kernel, programs, threads, shared, persistent, early, values, many = function.args
    if_return(b, has_failed(b, call), b.ret)
    if_return(b, b.icmp("sle", programs, const_i64(0)), b.ret)

    def too_many() -> None:
        fail(b, call, gpu_abi.TOO_MANY_PROGRAMS, kernel, programs)
        b.ret()

    if_return(b, b.icmp("sgt", programs, const_i64(MOST_PROGRAMS)), too_many)
    _load(b, call, kernel, shared)
    resident = b.minimum_int(programs, read(b, call, gpu_abi.MULTIPROCESSORS))
    started = b.select(persistent, resident, programs)
    config = _config(b, call, started, threads, shared)
    most = b.mul(read(b, call, gpu_abi.MULTIPROCESSORS), const_i64(EARLY_BLOCKS))
    _allow_early(b, config, b.binary("and", early, b.icmp("sle", started, most)))
    pointers = b.alloca(array(PTR, max(most_parameters, 1)), 8)

    def point(number: Value, _: list[Value]) -> Sequence[Value]:
        b.store(b.gep(I64, values, number), b.gep(PTR, pointers, number), 8)
        return ()

    for_loop(b, const_i64(0), many, const_i64(1), [], point)
    loaded = b.load(PTR, b.gep(PTR, read_pointer(b, call, gpu_abi.FUNCTIONS), kernel), 8)
    driver(b, call, cuda_driver.LAUNCH, [config, loaded, pointers, zero(PTR)])
    count(b, call, gpu_abi.LAUNCHES, const_i64(1))
    b.ret()
    return function


def _load(b: Builder, call: Value, kernel: Value, shared: Value) -> None:
    """Has the runtime load a kernel, or allow it more shared memory; returns from the function where that fails."""
    allowed = b.load(I64, b.gep(I64, read_pointer(b, call, gpu_abi.ALLOWED), kernel), 8)

    def load() -> None:
        refused = call_imported(b, "call.load", [kernel, shared], I32)

        def give_up() -> None:
            fail(b, call, gpu_abi.CALLBACK_RAISED, kernel, shared)
            b.ret()

        if_return(b, b.icmp("ne", refused, const_int(I32, 0)), give_up)

    if_then(b, b.icmp("sgt", shared, allowed), load)


def _config(b: Builder, call: Value, programs: Value, threads: Value, shared: Value) -> Value:
    """A `CUlaunchConfig` without attributes: grid, block and shared memory are 32 bits each."""
    config = b.alloca(array(I64, _CONFIG_WORDS), 8)
    one = const_int(I32, 1)
    narrow = [b.cast("trunc", value, I32) for value in (programs, threads, shared)]
    for place, value in enumerate((narrow[0], one, one, narrow[1], one, one, narrow[2])):
        b.store(value, b.gep(I32, config, place), 4)
    b.store(read(b, call, gpu_abi.STREAM), b.gep(I64, config, _STREAM_AT), 8)
    b.store(const_i64(0), b.gep(I64, config, _STREAM_AT + 1), 8)
    b.store(const_i64(0), b.gep(I64, config, _STREAM_AT + 2), 8)
    return config


def _allow_early(b: Builder, config: Value, allowed: Value) -> None:
    type_ = array(I32, len(_EARLY))
    content = ", ".join(f"i32 {number}" for number in _EARLY)
    attributes = b.module.variable("tessera.early", type_, f"[{content}]", constant=True, align=8)
    b.store(attributes, b.gep(I64, config, _STREAM_AT + 1), 8)
    b.store(b.select(allowed, const_int(I32, 1), const_int(I32, 0)), b.gep(I64, config, _STREAM_AT + 2), 4)


def emit_scratch(module: Module) -> Function:
    function = module.function("tessera.scratch", I64, [PTR, I64], attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    call, size = function.args

    def grow() -> None:
        refused = b.icmp("ne", call_imported(b, "call.scratch", [size], I32), const_int(I32, 0))
        if_then(b, refused, lambda: fail(b, call, gpu_abi.CALLBACK_RAISED, const_i64(0), size))

    if_then(b, b.icmp("sgt", size, read(b, call, gpu_abi.SCRATCH_BYTES)), grow)
    b.ret(read(b, call, gpu_abi.SCRATCH))
    return function


# --- reads ----------------------------------------------------------------------------------------------------------


class Told:
    """The places whose kernels tell of bad indices, numbered; `starts` has for each its first word, and `words` is how
    many there are of all."""

    def __init__(self, module: Module, places: Sequence[CheckIndices], starts: Sequence[int], words: int) -> None:
        self.places, self.words = places, words
        self._table = _table(module, [number for place, start in zip(places, starts, strict=True)
                                      for number in (place.site, start, len(place.sizes))])  # fmt: skip

    def note(self, b: Builder, call: Value, number: int, sizes: Sequence[Value]) -> None:
        """This place is to be looked at, if it is not so already; `sizes` are what its indices have to be below."""
        if len(sizes) > gpu_abi.MOST_INDICES:
            raise LoweringError(f"a place of {len(sizes)} computed indices; {gpu_abi.MOST_INDICES} are the most")
        pending = word(b, call, gpu_abi.pending_at(len(self.places)) + number)

        def add() -> None:
            told = read(b, call, gpu_abi.TOLD)
            b.store(const_i64(number), word(b, call, b.add(told, const_i64(gpu_abi.ORDER))), 8)
            b.store(const_i64(1), pending, 8)
            first = gpu_abi.sizes_at(len(self.places)) + number * gpu_abi.MOST_INDICES
            for place, size in enumerate(sizes):
                b.store(size, word(b, call, first + place), 8)
            count(b, call, gpu_abi.TOLD, const_i64(1))

        if_then(b, b.icmp("eq", b.load(I64, pending, 8), const_i64(0)), add)

    def check(self, b: Builder, call: Value) -> None:
        """Returns where a place has told of a bad index; afterwards there is none to look at."""

        def one(position: Value, _: list[Value]) -> Sequence[Value]:
            number = read(b, call, b.add(position, const_i64(gpu_abi.ORDER)))
            row = b.gep(I32, self._table, b.mul(number, const_i64(3)))
            site, start, many = (b.load(I32, b.gep(I32, row, i), 4) for i in range(3))
            wide = [b.cast("sext", value, I64) for value in (start, many)]
            sizes = b.add(b.mul(number, const_i64(gpu_abi.MOST_INDICES)), const_i64(gpu_abi.sizes_at(len(self.places))))
            self._check_words(b, call, site, wide, sizes)
            pending = b.add(number, const_i64(gpu_abi.pending_at(len(self.places))))
            b.store(const_i64(0), word(b, call, pending), 8)
            return ()

        for_loop(b, const_i64(0), read(b, call, gpu_abi.TOLD), const_i64(1), [], one)
        b.store(const_i64(0), word(b, call, gpu_abi.TOLD), 8)

    def _check_words(self, b: Builder, call: Value, site: Value, words: Sequence[Value], sizes: Value) -> None:
        start, many = words

        def one(index: Value, _: list[Value]) -> Sequence[Value]:
            place = b.add(b.add(start, index), const_i64(gpu_abi.words_at(len(self.places))))
            found = read(b, call, place)

            def leave() -> None:
                b.store(const_int(I32, STATUS_BAD_INDEX), call, 4)
                b.store(site, b.gep(I32, call, 1), 4)
                b.store(found, word(b, call, 1), 8)
                b.store(read(b, call, b.add(sizes, index)), word(b, call, 2), 8)
                b.ret(const_int(I32, STATUS_BAD_INDEX))

            if_return(b, b.icmp("ne", found, const_i64(NO_BAD_INDEX)), leave)
            return ()

        for_loop(b, const_i64(0), many, const_i64(1), [], one)


def _table(module: Module, numbers: Sequence[int]) -> Value:
    content = ", ".join(f"i32 {number}" for number in numbers) or "i32 0"
    type_ = array(I32, max(len(numbers), 1))
    return module.variable("tessera.told", type_, f"[{content}]", constant=True, align=4)


def emit_fetch(module: Module, told: Told) -> Function:
    parameters = [PTR, PTR, PTR, I64]
    function = module.function("tessera.fetch", I32, parameters, attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    call, source, target, size = function.args
    if_return(b, has_failed(b, call), lambda: b.ret(failure_code(b, call)))
    stream = read_pointer(b, call, gpu_abi.STREAM)

    def copy(to: Value, start: Value, bytes_: Value) -> None:
        driver(b, call, cuda_driver.READ, [to, start, bytes_, stream])
        count(b, call, gpu_abi.FETCHED, bytes_)

    if_then(b, b.icmp("sgt", size, const_i64(0)), lambda: copy(target, source, size))
    if told.places:
        words = word(b, call, gpu_abi.words_at(len(told.places)))
        waiting = b.icmp("sgt", read(b, call, gpu_abi.TOLD), const_i64(0))
        if_then(b, waiting, lambda: copy(words, read_pointer(b, call, gpu_abi.BAD_WORDS), const_i64(8 * told.words)))
    driver(b, call, cuda_driver.WAIT, [stream])
    count(b, call, gpu_abi.LOOKS, const_i64(1))
    if_return(b, has_failed(b, call), lambda: b.ret(failure_code(b, call)))
    if told.places:
        told.check(b, call)
    b.ret(const_int(I32, 0))
    return function


def emit_replay(module: Module) -> None:
    function = module.function("tessera.replay", I32, [PTR, PTR, PTR], attributes=HOST_ATTRIBUTES)
    b = function.builder
    call, graph, stream = function.args
    driver(b, call, cuda_driver.PUSH, [read_pointer(b, call, gpu_abi.CONTEXT)])
    if_return(b, has_failed(b, call), lambda: b.ret(failure_code(b, call)))
    driver(b, call, cuda_driver.REPLAY, [graph, stream])
    driver(b, call, cuda_driver.POP, [b.alloca(PTR, 8)])
    b.ret(failure_code(b, call))


# Note [Early launches]
# Between two launches of a stream a GPU waits until all of the first is written, then begins the second: more than a
# microsecond for kernels that take no longer. A launch with this attribute may begin when all programs of the one
# before are under way; its kernel waits, as the first thing it does, until that one has ended and all it wrote is seen.
# Programs that wait have a place on a multiprocessor already, so that launches of many programs, which need several
# turns of them, do not begin early.
#
# A kernel that begins early reads nothing by loads of memory that is never written (`ld.global.nc`), though no one
# writes it while the kernel computes: the launch before may still do, and ptxas moves such loads before the wait. Loops
# that read what they wrote an iteration before, solving and random programs, had other bits on every run for that. So
# kernels are of two kinds when they are compiled, `blocks.may_begin_early`: those that have few blocks, and those that
# lose nothing where only a run knows how many they have. How many are few is asked again at the launch, of the GPU at
# hand. A hundred launches of flip(x) + 1 of 32 numbers took 0.89 us each on an H200, and take 0.72.
