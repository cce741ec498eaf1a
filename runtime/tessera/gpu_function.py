"""A GPU program as a Python callable, beside `function.py`, which is that of the CPU.

Enters: what the caller wrote. Leaves: results where the arguments were: NumPy arrays for NumPy arrays, arrays on the
device as soon as one argument lies there; or the `TesseraError` that the CPU's code would give. All that is wrong with
a call is found before the device is touched.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tessera import cuda_streams
from tessera.arguments import AnyArray, placed_arrays_of
from tessera.call import bind_symbols, result_shape
from tessera.cuda_driver import DriverError
from tessera.device_array import DeviceArray, form_number, uploaded
from tessera.devices import Gpu
from tessera.donation import check_apart
from tessera.dtypes import numpy_dtype
from tessera.errors import WRONG_DEVICE, failure
from tessera.gpu_artifact import GpuArtifact
from tessera.gpu_call import PreparedCall
from tessera.gpu_checks import Check, last_check
from tessera.gpu_effects import checked_symbols
from tessera.gpu_host import CompiledHost
from tessera.gpu_loading import kernels_loading
from tessera.gpu_memory import Block, rounded_size
from tessera.outputs import flat_outputs, placed_outputs
from tessera.returned import is_flat
from tessera.signature import OUT

if TYPE_CHECKING:
    import numpy as np

MOST_SIZES = 64
"""Sets of sizes that a function is kept prepared for."""


class _Result(NamedTuple):
    """What a result is, but for where it lies."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    form: int
    size: int
    """Bytes to allocate."""


class _Plan(NamedTuple):
    """A call with arguments of some shapes."""

    symbols: Mapping[str, int]
    prepared: PreparedCall
    results: tuple[_Result, ...]


class GpuFunction:
    """Calls a program on one device."""

    def __init__(self, artifact: GpuArtifact, gpu: Gpu) -> None:
        self.signature = artifact.signature
        self.returned = artifact.returned
        self.returns_flat = is_flat(artifact.returned)
        self.params = artifact.params
        self._program = artifact.program
        self._gpu = gpu
        self._host: CompiledHost | None = None
        self._what = f"`{self.signature.name}`"
        self._takes_out = self.signature.takes_out(artifact.params)
        self._dtypes = [numpy_dtype(result.dtype) for result in self.signature.results]
        self._plans: OrderedDict[tuple[tuple[int, ...], ...], _Plan] = OrderedDict()
        self._quick: dict[tuple[int, ...], _Plan] = {}
        self._is_donated, self._returns_tuple = bool(self.signature.donated), self.signature.returns_tuple
        gpu.check_arch(self.signature.name, self._program.arch)

    def fast(self, *args: object, **kwargs: object) -> object:
        """A call; one with arrays of the device whose sizes were met before is not checked again."""
        if kwargs or self._is_donated:
            return self(*args, **kwargs)
        key = tuple([value.form if type(value) is DeviceArray else 0 for value in args])
        plan = self._quick.get(key)
        if plan is None:
            return self._first_fast(args)
        found = self._resident(plan, args)  # type: ignore[arg-type]
        return tuple(found) if self._returns_tuple else found[0]

    def _first_fast(self, args: Sequence[object]) -> object:
        """A call of `fast` with sizes that were not met before, or with arrays of other libraries."""
        arrays = []
        for value in args:
            array = value if isinstance(value, DeviceArray) else _on_device(value)
            if array is None:
                return self(*args)
            arrays.append(array)
        if not any(type(array) is DeviceArray for array in arrays):
            return self(*args)
        found = tuple([array.form for array in arrays])
        plan = self._quick.get(found)
        if plan is None:
            result = self(*arrays)
            self._keep_quick(found, tuple(array.shape for array in arrays))
            return result
        made = self._resident(plan, arrays)
        return tuple(made) if self._returns_tuple else made[0]

    def _keep_quick(self, key: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> None:
        if len(self._quick) >= MOST_SIZES:
            self._quick.clear()
        self._quick[key] = self._plans[shapes]

    def before(self, unusual: Callable[..., object]) -> Callable[..., object]:
        """As `fast`, but what is not one array or float for each parameter goes to `unusual`, which knows what
        parameters are where a call leaves them out."""
        import numpy as np

        parameters, usual = self.signature.parameters, (DeviceArray, np.ndarray, float)
        count, are_arrays = len(parameters), all(parameter.sizes for parameter in parameters)

        def call(*args: object, **kwargs: object) -> object:
            is_usual = not kwargs and len(args) == count and (are_arrays or all(type(value) in usual for value in args))
            return (self.fast if is_usual else unusual)(*args, **kwargs)

        return call

    def __call__(self, *args: object, **kwargs: object) -> object:
        given = kwargs.pop(OUT, None) if self._takes_out else None
        arrays = placed_arrays_of(self.signature, args, kwargs)
        self._check_devices(arrays)
        check_apart(self.signature, arrays)
        plan = self._plan(arrays)
        if given is not None:
            wanted = flat_outputs(self.signature.name, self.returned, given)
            targets = placed_outputs(self.signature, wanted, arrays, plan.symbols)
            self._check_devices(targets)
            self._run(plan, arrays, targets)
            return given
        return self._result(self._run(plan, arrays, self._targets(plan, arrays)))

    def into(self, leaves: Sequence[object], out: object) -> object:
        """The results in memory of the caller's, which is made as what the function returns is."""
        return self(*leaves, **{OUT: out})

    def sizes(self, leaves: Sequence[object]) -> dict[str, int]:
        """What the symbols of the signature are in a call with these arguments."""
        return bind_symbols(self.signature, [array.shape for array in placed_arrays_of(self.signature, leaves, {})])

    def _check_devices(self, arrays: Sequence[AnyArray]) -> None:
        for array in arrays:
            if isinstance(array, DeviceArray) and array.gpu is not self._gpu:
                note = "all arrays of a call lie on one device"
                message = f"{self._what} runs on {self._gpu.name}, and an argument lies on {array.device}"
                raise failure(WRONG_DEVICE, message, (note,))

    def _plan(self, arrays: Sequence[AnyArray]) -> _Plan:
        shapes = tuple(array.shape for array in arrays)
        found = self._plans.get(shapes)
        if found is None:
            gpu, symbols = self._gpu, checked_symbols(self._program, shapes)
            results = tuple(self._described(place, symbols) for place in range(len(self._dtypes)))
            beside, loading = gpu.recordings.beside(self._stream(arrays)), kernels_loading(gpu, self._program, symbols)
            with gpu.lock, gpu.entered(), beside, loading:
                self._host = self._host or CompiledHost(gpu, self._program)
                prepared = PreparedCall(self._host, symbols)
            found = self._plans[shapes] = _Plan(symbols, prepared, results)
            if len(self._plans) > MOST_SIZES:
                self._plans.popitem(last=False)
        return found

    def _described(self, place: int, symbols: Mapping[str, int]) -> _Result:
        shape, dtype = result_shape(self.signature, place, symbols), self._dtypes[place]
        size = rounded_size(math.prod(shape) * dtype.itemsize)
        return _Result(shape, dtype, form_number(self._gpu, dtype, shape), size)

    def _targets(self, plan: _Plan, arrays: Sequence[AnyArray]) -> list[AnyArray | None]:
        """The arrays of results that are not to be made on the device: those of the host, and given ones."""
        import numpy as np

        taken = self.signature.taken()
        is_resident = any(type(array) is DeviceArray for array in arrays)
        targets: list[AnyArray | None] = []
        for place, result in enumerate(plan.results):
            if place in taken:
                targets.append(arrays[taken[place]])
            else:
                targets.append(None if is_resident else np.empty(result.shape, result.dtype))
        return targets

    def _run(self, plan: _Plan, arrays: Sequence[AnyArray], targets: Sequence[AnyArray | None]) -> list[AnyArray]:
        gpu = self._gpu
        with gpu.lock:
            gpu.enter()
            try:
                stream = self._stream(arrays)
                if gpu.recordings.is_recorded(stream):
                    return self._join(plan, arrays, targets, stream)
                inputs = [self._input(array, stream) for array in arrays]
                gpu.checks.look()
                before = last_check(inputs)
                outputs = self._outputs(plan, targets, arrays, stream)
                check = plan.prepared.run([array.address for array in (*inputs, *outputs)], stream)
                return self._finish(outputs, targets, stream, _joined(check, before))
            except DriverError as error:
                raise gpu.failed(error, self._what) from None
            finally:
                gpu.driver.pop()

    def _resident(self, plan: _Plan, arrays: Sequence[DeviceArray]) -> list[DeviceArray]:
        """As `_run`, where all arguments lie on the device and all results are made there."""
        gpu = self._gpu
        with gpu.lock:
            stream, checks = self._stream(arrays), gpu.checks
            if gpu.broken or (stream and gpu.recordings.is_recorded(stream)):
                return self._run(plan, arrays, [None] * len(plan.results))  # type: ignore[return-value]
            if checks.under_way or checks.untold or checks.recorded:
                checks.look()
            addresses, before = [], None
            for array in arrays:
                if array.stream != stream:
                    array.ready_on(stream)
                if array.check is not None:
                    before = last_check(arrays)
                addresses.append(array.address)
            outputs, take = [], gpu.memory.take
            for shape, dtype, form, size in plan.results:
                block = take(size, stream, self._what)
                outputs.append(DeviceArray(gpu, block.address, shape, dtype, block, stream, False, form))
                addresses.append(block.address)
            try:
                check = plan.prepared.run(addresses, stream)
            except DriverError as error:
                raise gpu.failed(error, self._what) from None
            if check is not None or before is not None:
                check = _joined(check, before)
                for output in outputs:
                    output.check = check
            return outputs

    def _join(
        self, plan: _Plan, arrays: Sequence[AnyArray], targets: Sequence[AnyArray | None], stream: int
    ) -> list[AnyArray]:
        """The call as part of a graph that the caller records. What is given away is written where it lies, by each
        run. Needs lock and context."""
        from tessera.gpu_recording import refuse

        gpu = self._gpu
        refuse(self._what, self._program, arrays, targets)
        with gpu.recordings.beside(stream):
            recording, read = gpu.recordings.of(stream), {id(array) for array in arrays}
            inputs = [recording.input(array, self._what) for array in arrays]
            outputs = [
                target if isinstance(target, DeviceArray) and id(target) not in read
                else recording.result(result.size, result.shape, result.dtype, self._what)
                for target, result in zip(targets, plan.results, strict=True)
            ]  # fmt: skip
            before = recording.check_of(inputs)
            check = plan.prepared.join([array.address for array in (*inputs, *outputs)], recording)
            for output, target in zip(outputs, targets, strict=True):
                output.check = _joined(check, before)
                if isinstance(target, DeviceArray):
                    recording.writes(target, output)
        return [output if target is None else target for output, target in zip(outputs, targets, strict=True)]

    def _stream(self, arrays: Sequence[AnyArray]) -> int:
        """That of the library whose arrays these are, else the current one."""
        for array in arrays:
            if isinstance(array, DeviceArray) and type(array.owner) is not Block:
                return array.stream
        return cuda_streams.current(self._gpu)

    def _input(self, array: AnyArray, stream: int) -> DeviceArray:
        if isinstance(array, DeviceArray):
            if array.stream != stream:
                array.ready_on(stream)
            return array
        return uploaded(self._gpu, array, stream, self._what)

    def _outputs(
        self, plan: _Plan, targets: Sequence[AnyArray | None], arrays: Sequence[AnyArray], stream: int
    ) -> list[DeviceArray]:
        """Where kernels write. An argument that is given away is still read while they do."""
        outputs, read = [], {id(array) for array in arrays}
        for target, result in zip(targets, plan.results, strict=True):
            if isinstance(target, DeviceArray) and id(target) not in read:
                target.ready_on(stream)
                target.written_on(stream)
                outputs.append(target)
            else:
                outputs.append(self._new(result, stream))
        return outputs

    def _new(self, result: _Result, stream: int) -> DeviceArray:
        block = self._gpu.memory.take(result.size, stream, self._what)
        return DeviceArray(self._gpu, block.address, result.shape, result.dtype, block, stream, False, result.form)

    def _finish(
        self, outputs: Sequence[DeviceArray], targets: Sequence[AnyArray | None], stream: int, check: Check | None
    ) -> list[AnyArray]:
        """The results, each in the array that it is for."""
        results: list[AnyArray] = []
        if check is not None and not all(target is None or _is_ours(target) for target in targets):
            self._gpu.checks.settle(check)  # others see the memory, and would not be told
        for output, target in zip(outputs, targets, strict=True):
            output.check = check
            if target is None or target is output:
                results.append(output)
                continue
            if isinstance(target, DeviceArray):
                _take(target, output, stream)
            elif target.nbytes:
                self._gpu.staging.copy_out(target.ctypes.data, output.address, target.nbytes, stream)
                self._gpu.memory.copied_out += target.nbytes
            results.append(target)
        return results

    def _result(self, results: Sequence[AnyArray]) -> object:
        values = tuple(_as_result(result) for result in results)
        return values if self.signature.returns_tuple else values[0]


def _on_device(value: object) -> DeviceArray | None:
    """An array of another library that lies on a GPU and can be read as it is; None for all else."""
    if not hasattr(value, "__dlpack_device__"):
        return None
    from tessera.dlpack import adopted

    try:
        return adopted(value)
    except BufferError:
        return None


def _as_result(array: AnyArray) -> object:
    return array if isinstance(array, DeviceArray) or array.ndim else array[()]


def _joined(check: Check | None, before: Check | None) -> Check | None:
    """What results are to carry: the check of their call, which knows of that of its arguments."""
    if check is None:
        return before
    check.before = before
    return check


def _is_ours(array: AnyArray) -> bool:
    """Whether nobody but us knows its memory."""
    return isinstance(array, DeviceArray) and isinstance(array.owner, Block) and not array.owner.is_shared


def _take(target: DeviceArray, output: DeviceArray, stream: int) -> None:
    """Makes an array that was given away hold a result: it takes over the memory of the result, unless somebody else
    knows its own."""
    target.check = output.check
    if _is_ours(target):
        assert isinstance(target.owner, Block)
        target.owner.used_on(stream)
        target.owner, target.address = output.owner, output.address
    else:
        target.gpu.driver.copy(target.address, output.address, output.nbytes, stream)
    target.written_on(stream)
