"""Calls of a GPU program that can be looked into: which variant runs, what is written, how long the device takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera.device_array import DeviceArray, empty, uploaded
from tessera.devices import Gpu, gpu
from tessera.dtypes import numpy_dtype
from tessera.gpu_call import PreparedCall
from tessera.gpu_effects import checked_symbols
from tessera.gpu_host import CompiledHost
from tessera.gpu_launch import variant
from tessera.gpu_program import GpuProgram, Kernel, Launch


def device() -> Gpu:
    """The first GPU. Raises TesseraError where there is none."""
    return gpu(0)


class GpuCall:
    """A call with its memory on the device. `execute` may be repeated: it leaves the inputs as they are."""

    def __init__(self, program: GpuProgram, arrays: Sequence[Any]) -> None:
        self.program = program
        self.symbols = checked_symbols(program, [array.shape for array in arrays])
        self._gpu = device()
        self._gpu.check_arch(program.signature.name, program.arch)
        with self._gpu.lock, self._gpu.entered():
            self._call = PreparedCall(CompiledHost(self._gpu, program), self.symbols)
            self._inputs = [uploaded(self._gpu, array, 0, "an input") for array in arrays]
            self._outputs = [self._result(place) for place in range(len(program.signature.results))]
        self._addresses = [array.address for array in (*self._inputs, *self._outputs)]

    def _result(self, place: int) -> DeviceArray:
        spec = self.program.signature.results[place]
        shape = tuple(size.evaluate(self.symbols) for size in spec.sizes)
        return empty(self._gpu, shape, numpy_dtype(spec.dtype), 0, "a result")

    def variant(self, step: Launch) -> Kernel:
        """The variant that these sizes choose."""
        return variant(self.program, step, self.symbols)

    def fill_outputs(self, byte: int) -> None:
        """Sets every byte of the outputs: a test sees what a kernel did not write."""
        with self._gpu.lock, self._gpu.entered() as driver:
            for array in self._outputs:
                if array.nbytes:
                    driver.fill(array.address, byte, array.nbytes, 0)

    def execute(self) -> None:
        with self._gpu.lock:
            self._start()

    def _start(self) -> None:
        check = self._call.run(self._addresses, 0)
        if check is not None:
            for array in self._outputs:
                array.check = check

    def results(self) -> tuple[Any, ...]:
        """The outputs, in the memory of the host. Raises where an index was bad."""
        return tuple(array.numpy() for array in self._outputs)

    def time(self, repeat: int) -> float:
        """Milliseconds of one execution on the device, the mean over `repeat` of them."""
        with self._gpu.lock, self._gpu.entered() as driver:
            return driver.milliseconds(0, lambda: [self._start() for _ in range(repeat)]) / repeat
