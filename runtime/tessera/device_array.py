"""Arrays that lie in the memory of a GPU.

Enters: arrays of the host, of other libraries on the same device, and results of calls. Leaves: a `DeviceArray`, which
calls take and give without a copy, which torch, CuPy and JAX read where it lies, and which becomes a NumPy array only
when asked: `.numpy()`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, NoReturn

from tessera import cuda_streams
from tessera.devices import Gpu, find_device
from tessera.dtypes import is_narrow, is_stored
from tessera.errors import ON_DEVICE, WRONG_DEVICE, WRONG_DTYPE, WRONG_KIND, failure, kind_of
from tessera.gpu_memory import Block
from tessera.operator import Operator
from tessera.programs import FunctionValue
from tessera.scaled import Scaled
from tessera.streams import Event
from tessera.structs import StructValue

if TYPE_CHECKING:
    import numpy as np

    from tessera.arguments import Array
    from tessera.gpu_checks import Check

_forms: dict[tuple[int, str, tuple[int, ...]], int] = {}


def form_number(gpu: Gpu, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> int:
    """One number for each device, dtype and shape, so that a call compares numbers."""
    return _forms.setdefault((gpu.index, dtype.name, shape), len(_forms) + 1)


SMALL_COPY = 1 << 16
"""Bytes of the host's memory up to which the driver has read it once a copy is started."""


class DeviceArray:
    """A contiguous array on a GPU. `stream` is where it was written last; others wait for it before they read."""

    __slots__ = (
        "__weakref__", "address", "check", "dtype", "form", "gpu", "is_readonly", "is_there", "owner", "shape",
        "stream", "written",
    )  # fmt: skip

    def __init__(
        self,
        gpu: Gpu,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[np.generic],
        owner: object,
        stream: int,
        is_readonly: bool = False,
        form: int = 0,
    ) -> None:
        self.gpu = gpu
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.owner = owner
        self.stream = stream
        self.is_readonly = is_readonly
        self.form = form or form_number(gpu, dtype, shape)
        """The number of all that says which code a call with it means."""
        self.check: Check | None = None
        """What is to be looked at before anybody sees it."""
        self.written: Event | None = None
        """Behind what writes it, where another stream has waited for that."""
        self.is_there = False
        """Whether that has passed, so that no stream need wait."""

    @property
    def device(self) -> str:
        return self.gpu.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def numpy(self) -> Array:
        """A copy in the memory of the host. Waits for the device."""
        import numpy as np

        array: Array = np.empty(self.shape, self.dtype)
        self.copy_to(array)
        return array

    def copy_to(self, array: Array) -> None:
        """Fills a contiguous array of the host that has this shape and dtype."""
        self.settle()
        if not self.nbytes:
            return
        with self.gpu.lock, self.gpu.entered():
            stream = self.gpu.recordings.readable(self.stream)
            self.gpu.staging.copy_out(array.ctypes.data, self.address, self.nbytes, stream)
            self.gpu.memory.copied_out += self.nbytes

    def item(self) -> object:
        """The value of an array of one element."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dims")
        return self.shape[0]

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        note = "`x.numpy()` copies it to the host"
        raise failure(ON_DEVICE, f"this array lies on {self.device}, and is not copied without being asked", (note,))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if is_narrow(self.dtype.name):
            raise AttributeError(f"the array interface has no {self.dtype}; DLPack has")
        self.share()
        with self.gpu.lock, self.gpu.entered():
            stream = self.gpu.recordings.started_on(self.stream)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.nbytes else 0, self.is_readonly),
            "strides": None,
            "stream": cuda_streams.to_protocol(stream),
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        from tessera.dlpack import CUDA

        return CUDA, self.gpu.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Gives the memory to another library, which works on `stream`."""
        from tessera.dlpack import exported

        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"this array lies on {self.device}; `x.numpy()` copies it to the host")
        given = copied(self) if copy else self
        consumer = cuda_streams.from_protocol(stream)
        if consumer is not None:
            given.ready_on(consumer)
        given.share()
        return exported(given, max_version)

    def ready_on(self, stream: int) -> None:
        """From now on what is started on a stream sees the array as it was written."""
        if stream == self.stream:
            return
        with self.gpu.lock:
            recordings = self.gpu.recordings
            if recordings.is_recorded(stream):
                with self.gpu.entered():
                    recordings.of(stream).reads(self)
                return
            if not self._is_written():
                self._order_before(stream)
        if isinstance(self.owner, Block):
            self.owner.used_on(stream)

    def written_on(self, stream: int) -> None:
        """Its elements are now those that are written on a stream."""
        self.stream, self.written, self.is_there = stream, None, False

    def _is_written(self) -> bool:
        """Whether the device is known to have written it. What others know the address of they may write again."""
        if self.written is not None and not self.is_there and self.written.done():
            self.is_there, self.written = True, None
        return self.is_there

    def _order_before(self, stream: int) -> None:
        """The event stays, so that later calls need not wait once it has passed."""
        with self.gpu.entered() as driver:
            if self.stream < cuda_streams.DEFAULT:
                self.gpu.recordings.order(self.stream, stream)
                return
            event = Event(self.gpu)
            event.record_on(driver, self.stream)
            event.wait_on(driver, stream)
        if isinstance(self.owner, Block) and not self.owner.is_shared:
            self.written = event

    def settle(self) -> None:
        """Waits until it is known that all indices were in range where it comes from; raises where they were not."""
        if self.check is not None:
            with self.gpu.lock:
                self.gpu.checks.settle(self.check)
            if not self.check.is_recorded:
                self.check = None

    def share(self) -> None:
        """Says that others know the address, so that the memory is never exchanged."""
        self.settle()
        if isinstance(self.owner, Block):
            self.owner.is_shared = True
        self.written, self.is_there = None, False

    def __repr__(self) -> str:
        return f"<{self.dtype} {self.shape} on {self.device}>"


class KeptArray(DeviceArray):
    """An array that a module keeps on the device, as it does its params. It is no argument of a call: results follow
    those."""

    __slots__ = ()


def kept(value: object, gpu: Gpu) -> object:
    """A copy of a param on a device, for all calls to come."""
    placed = _onto(gpu)

    def keep(item: object) -> object:
        array = placed(item)
        assert isinstance(array, DeviceArray)
        array.share()
        return KeptArray(gpu, array.address, array.shape, array.dtype, array.owner, array.stream)

    return _mapped(value, keep)


def empty(gpu: Gpu, shape: tuple[int, ...], dtype: np.dtype[np.generic], stream: int, what: str) -> DeviceArray:
    """An array of any content. Needs the lock and the context of the device."""
    size = math.prod(shape) * dtype.itemsize
    block = gpu.memory.allocate(size, stream, what)
    return DeviceArray(gpu, block.address, shape, dtype, block, block.stream)


def uploaded(gpu: Gpu, array: Array, stream: int, what: str) -> DeviceArray:
    """A copy of a contiguous array of the host, which may change afterwards. Needs lock and context."""
    if gpu.recordings.is_recorded(stream):
        with gpu.recordings.beside(stream):
            return gpu.recordings.of(stream).constant(array, what)
    made = empty(gpu, array.shape, array.dtype, stream, what)
    if array.nbytes:
        copy = gpu.driver.copy_in if array.nbytes <= SMALL_COPY else gpu.staging.copy_in
        copy(made.address, array.ctypes.data, array.nbytes, stream)
        gpu.memory.copied_in += array.nbytes
    return made


def copied(array: DeviceArray, *, is_readonly: bool = False) -> DeviceArray:
    """The same elements in memory of their own, on the same device."""
    with array.gpu.lock, array.gpu.entered() as driver:
        stream = array.gpu.recordings.started_on(array.stream)
        made = empty(array.gpu, array.shape, array.dtype, stream, "a copy")
        driver.copy(made.address, array.address, array.nbytes, stream)
    made.is_readonly, made.check = is_readonly, array.check
    return made


def to_device(value: object, device: object = "cuda") -> object:
    """A copy on a device of an array, or of all arrays in structs, operators, tuples, lists and dicts. What lies there
    already stays as it is; Python's numbers, texts and None stay too."""
    gpu = find_device(device)
    return _mapped(value, _onto(gpu) if gpu is not None else _to_host)


def to_host(value: object) -> object:
    """The same with NumPy arrays in place of those on a device."""
    return _mapped(value, _to_host)


def _onto(gpu: Gpu) -> Callable[[object], object]:
    def place(value: object) -> object:
        from tessera.values import as_array

        array = as_array(value)
        if isinstance(array, DeviceArray):
            if array.gpu is not gpu:
                raise failure(WRONG_DEVICE, f"this array lies on {array.device}, not on {gpu.name}", (_THROUGH_HOST,))
            return array
        return _uploaded(gpu, array)

    return place


_THROUGH_HOST = "there is no copy from one GPU to another yet: go through `x.numpy()`"


def _uploaded(gpu: Gpu, array: Array) -> DeviceArray:
    import numpy as np

    if not is_stored(array.dtype):
        raise failure(WRONG_DTYPE, f"an array of dtype {array.dtype} has no place on a GPU")
    with gpu.lock, gpu.entered():
        stream = cuda_streams.call_stream(gpu, ())
        return uploaded(gpu, np.asarray(array, order="C"), stream, "`to_device`")


def _to_host(value: object) -> object:
    from tessera.values import as_array

    array = as_array(value)
    return array.numpy() if isinstance(array, DeviceArray) else array


def _mapped(value: object, place: Callable[[object], object]) -> object:
    """A value with `place` done to each array in it."""
    if isinstance(value, StructValue):
        fields = {name: _mapped(getattr(value, name), place) for name, _ in value._interface.fields}
        return type(value)._of_fields(fields)
    if isinstance(value, Operator):
        return Operator(value.tree, [_mapped(part, place) for part in value.parts])
    if isinstance(value, FunctionValue):
        return value._replace(items=tuple(_mapped(item, place) for item in value.items))
    if isinstance(value, Scaled):
        return Scaled(*(_mapped(item, place) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(_mapped(item, place) for item in value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, place) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__") or _is_scalar(value):
        return place(value)
    raise failure(WRONG_KIND, f"an array, a struct, an operator, or tuples, lists and dicts, not {kind_of(value)}")


def checks_of(value: object) -> Iterator[Check]:
    """Those that the arrays in a result carry."""
    if isinstance(value, DeviceArray):
        if value.check is not None:
            yield value.check
        return
    if isinstance(value, StructValue | Mapping):
        items: object = (vars(value) if isinstance(value, StructValue) else value).values()
    else:
        items = getattr(value, "parts", value)  # an operator has some
    for item in items if isinstance(items, tuple | list | ValuesView) else ():
        yield from checks_of(item)


def _is_scalar(value: object) -> bool:
    import numpy as np

    return isinstance(value, np.generic)
