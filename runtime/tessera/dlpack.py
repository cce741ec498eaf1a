"""DLPack: arrays of other libraries as ours, ours as theirs, without a copy.

Enters: an object that speaks DLPack or the CUDA array interface, whose memory is on a GPU. Leaves: a `DeviceArray` over
that memory, which keeps the object's alive; over memory of the CPU, an array of NumPy, where it does not read the dtype
itself. The other way: a capsule, which keeps the array alive until its consumer lets go. See Note [The end of the
process].
"""

from __future__ import annotations

import atexit
import ctypes
import math
import sys
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from tessera import cuda_streams
from tessera.device_array import DeviceArray, form_number
from tessera.devices import Gpu, gpu
from tessera.dtypes import is_narrow, numpy_dtype
from tessera.errors import WRONG_DTYPE, failure

if TYPE_CHECKING:
    import numpy as np

HOST, CUDA, CUDA_MANAGED = 1, 2, 13
_NAME, _USED, _NAME_1, _USED_1 = b"dltensor", b"used_dltensor", b"dltensor_versioned", b"used_dltensor_versioned"
_READ_ONLY = 1
_CODES = {
    "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64),
    "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64),
    "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
    "complex64": (5, 64), "complex128": (5, 128), "bool": (6, 8), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
    "float8_e8m0fnu": (14, 8),
}  # fmt: skip
"""DLPack's code and bits of each dtype."""
_DTYPES = {code: name for name, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
        ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
        ("tensor", _Tensor),
    )  # fmt: skip


_python = ctypes.PyDLL(None)  # of our own, since the types of parameters belong to the object
_python.PyCapsule_IsValid.argtypes = (c_void_p, ctypes.c_char_p)
_python.PyCapsule_GetPointer.restype = c_void_p
_python.PyCapsule_GetPointer.argtypes = (c_void_p, ctypes.c_char_p)
_python.PyCapsule_SetName.argtypes = (c_void_p, ctypes.c_char_p)
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = (c_void_p, ctypes.c_char_p, c_void_p)
_DELETER = ctypes.PYFUNCTYPE(None, c_void_p)

# --- theirs as ours ---------------------------------------------------------------------------------------------------


class _Foreign:
    """Memory of another library; its deleter runs when nothing of ours refers to it."""

    def __init__(self, managed: _Managed | _Versioned) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            _DELETER(self._managed.deleter)(ctypes.addressof(self._managed))


def adopted(value: object) -> DeviceArray | None:
    """An array of another library that lies on a GPU; None for all else. Raises BufferError where the library does not
    give it."""
    tell = getattr(value, "__dlpack_device__", None)
    found = _from_torch(value) if "torch" in sys.modules else None
    if found is not None:
        return found
    if tell is None:
        interface = getattr(value, "__cuda_array_interface__", None)
        return _from_interface(value, interface) if isinstance(interface, dict) else None
    kind, index = tell()
    if kind not in (CUDA, CUDA_MANAGED):
        return None
    own = gpu(index)
    with own.lock, own.entered():
        stream = cuda_streams.call_stream(own, (value,))
        return _from_capsule(own, value, stream)


def narrow_array(value: Any) -> np.ndarray[Any, Any] | None:
    """An array of another library in the memory of the CPU whose dtype NumPy has only by another package, and so does
    not take itself; None for all else."""
    tell = getattr(value, "__dlpack_device__", None)
    if tell is None or tell()[0] != HOST:
        return None
    try:
        managed, is_readonly = _taken(_capsule(value, None))
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    name = _DTYPES.get((managed.tensor.code, managed.tensor.bits))
    memory = _HostMemory(managed, is_readonly)
    return None if name is None or not is_narrow(name) else memory.array(numpy_dtype(name))


class _HostMemory(_Foreign):
    """Memory of another library as NumPy reads it: arrays over it keep it alive."""

    def __init__(self, managed: _Managed | _Versioned, is_readonly: bool) -> None:
        super().__init__(managed)
        self._is_readonly = is_readonly
        self.__array_interface__: dict[str, object] = {}

    def array(self, dtype: np.dtype[np.generic]) -> np.ndarray[Any, Any]:
        """Read as whole numbers of as many bits, which every array may hold, and then as what they are."""
        import numpy as np

        tensor = self._managed.tensor
        shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else row_major(shape)
        self.__array_interface__ = {
            "version": 3, "typestr": np.dtype(f"u{dtype.itemsize}").str, "shape": shape,
            "strides": tuple(stride * dtype.itemsize for stride in strides),
            "data": ((tensor.data or 0) + tensor.byte_offset, self._is_readonly),
        }  # fmt: skip
        return np.asarray(self).view(dtype)


def _from_torch(value: Any) -> DeviceArray | None:
    """A plain tensor of torch, by its attributes, in a tenth of the time that its capsule takes; None for all else."""
    torch = sys.modules["torch"]
    if type(value) is not torch.Tensor or not value.is_cuda or value.layout is not torch.strided:
        return None
    if value.requires_grad or not value.is_contiguous() or value.is_neg():
        return None
    key = (value.get_device(), value.dtype, value.shape)
    kind = _torch_kinds.get(key) or _torch_kind(torch, *key)
    if kind is None:
        return None
    own, dtype, shape, form = kind
    theirs = cuda_streams.library_stream(own, "torch")
    stream = cuda_streams.current(own)
    if theirs not in (None, stream):
        with own.lock, own.entered() as driver:
            driver.order(theirs, stream)
    return DeviceArray(own, value.data_ptr(), shape, dtype, value, stream, False, form)


_Kind: TypeAlias = "tuple[Gpu, np.dtype[np.generic], tuple[int, ...], int]"
_torch_kinds: dict[tuple[int, object, tuple[int, ...]], _Kind] = {}
"""What tensors of torch on a device, of a dtype and a shape, are as arrays of ours."""
_MOST_KINDS = 1024


def _torch_kind(torch: Any, index: int, dtype: object, sizes: tuple[int, ...]) -> _Kind | None:
    found = _torch_dtypes(torch).get(dtype)
    if found is None:
        return None
    own, shape = gpu(index), tuple(sizes)
    if len(_torch_kinds) >= _MOST_KINDS:
        _torch_kinds.clear()
    kind = _torch_kinds[index, dtype, sizes] = (own, found, shape, form_number(own, found, shape))
    return kind


@cache
def _torch_dtypes(torch: Any) -> dict[object, np.dtype[np.generic]]:
    """By torch's own. Complex numbers, which may be conjugated without having moved, go by their capsules."""
    names = [name for name, (code, _) in _CODES.items() if code in (0, 1, 2, 4, 6)]
    return {getattr(torch, name): numpy_dtype(name) for name in names if hasattr(torch, name)}


def _from_capsule(own: Gpu, value: Any, stream: int) -> DeviceArray:
    try:
        capsule = _capsule(value, cuda_streams.to_protocol(stream))
    except (RuntimeError, TypeError, ValueError) as error:
        raise BufferError(error) from None
    managed, is_readonly = _taken(capsule)
    owner, tensor = _Foreign(managed), managed.tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    name = _DTYPES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        raise failure(WRONG_DTYPE, f"a {type(value).__name__} has a dtype that the language has not")
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    dtype = numpy_dtype(name)
    if not is_in_order(shape, strides) or address % dtype.itemsize:
        return _copied_in_order(own, address, shape, strides or row_major(shape), dtype, stream)
    return DeviceArray(own, address, shape, dtype, owner, stream, is_readonly=is_readonly)


def _capsule(value: Any, stream: int | None) -> object:
    """With the version that tells what is read-only, where the library has it."""
    try:
        return value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        return value.__dlpack__(stream=stream)


def _taken(capsule: object) -> tuple[_Managed | _Versioned, bool]:
    """What is in a capsule, which from now on is ours."""
    for name, used, kind in ((_NAME_1, _USED_1, _Versioned), (_NAME, _USED, _Managed)):
        if _python.PyCapsule_IsValid(id(capsule), name):
            managed = kind.from_address(_python.PyCapsule_GetPointer(id(capsule), name))
            _python.PyCapsule_SetName(id(capsule), used)
            return managed, isinstance(managed, _Versioned) and bool(managed.flags & _READ_ONLY)
    raise BufferError("its capsule has been read already")


def is_in_order(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """Whether elements lie one behind the other; `strides` count elements."""
    expected = 1
    if 0 in shape:
        return True
    for size, stride in reversed(list(zip(shape, strides or (), strict=False))):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of elements that lie one behind the other."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _copied_in_order(
    own: Gpu,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[np.generic],
    stream: int,
) -> DeviceArray:
    """Memory of its own with the elements one behind the other. What is written to it does not reach the other library:
    it is read-only. The library may use the old memory again only behind the copy, which is so on its stream."""
    from tessera.gpu_strides import in_order

    made = in_order(own, address, shape, strides, dtype, stream)
    made.is_readonly = True
    return made


def _from_interface(value: object, interface: dict[str, Any]) -> DeviceArray:
    """An array of a library without DLPack."""
    import numpy as np

    dtype: np.dtype[np.generic] = np.dtype(interface["typestr"])
    shape = tuple(map(int, interface["shape"]))
    strides = interface.get("strides")
    steps = None if strides is None else tuple(step // dtype.itemsize for step in strides)
    address, is_readonly = interface["data"]
    own = gpu(_device_of(address))
    with own.lock, own.entered() as driver:
        stream = cuda_streams.call_stream(own, (value,))
        theirs = cuda_streams.from_protocol(interface.get("stream") or cuda_streams.NOBODY)
        if theirs not in (None, stream):
            driver.order(theirs, stream)
        if not is_in_order(shape, steps) or address % dtype.itemsize:
            return _copied_in_order(own, address, shape, steps or row_major(shape), dtype, stream)
    return DeviceArray(own, address, shape, dtype, value, stream, is_readonly=bool(is_readonly))


def _device_of(address: int) -> int:
    first = gpu(0)
    with first.entered() as driver:
        return driver.device_of(address) if address else 0


# --- ours as theirs ---------------------------------------------------------------------------------------------------

_lent: dict[int, tuple[object, ...]] = {}
"""What consumers hold, by the address of what describes it."""


def exported(array: DeviceArray, max_version: tuple[int, int] | None) -> object:
    """A capsule over the memory of an array. Raises BufferError for what DLPack cannot say."""
    if array.dtype.name not in _CODES:
        raise BufferError(f"DLPack has no {array.dtype}")
    is_versioned = max_version is not None and max_version[0] >= 1
    if array.is_readonly and not is_versioned:
        raise BufferError("this array is read-only, which only DLPack 1.0 can say")
    shape = (c_int64 * array.ndim)(*array.shape)
    managed = _described(array, shape, is_versioned=is_versioned)
    address = ctypes.addressof(managed)
    _lent[address] = (managed, shape, array)
    name = _NAME_1 if is_versioned else _NAME
    return _python.PyCapsule_New(address, name, ctypes.cast(_let_go, c_void_p).value)


def _described(array: DeviceArray, shape: Any, *, is_versioned: bool) -> _Managed | _Versioned:
    code, bits = _CODES[array.dtype.name]
    strides = None
    tensor = _Tensor(array.address, CUDA, array.gpu.index, array.ndim, code, bits, 1, shape, strides, 0)
    deleter = ctypes.cast(_delete, c_void_p).value
    if is_versioned:
        return _Versioned(1, 0, None, deleter, _READ_ONLY * array.is_readonly, tensor)
    return _Managed(tensor, None, deleter)


def _forget(address: int) -> None:
    """Called by a consumer, on any thread."""
    _lent.pop(address, None)


def _forget_unread(capsule: int) -> None:
    """Called when a capsule is no longer referred to; one that was never read still has what it describes."""
    for name in (_NAME, _NAME_1):
        if _python.PyCapsule_IsValid(capsule, name):
            _lent.pop(_python.PyCapsule_GetPointer(capsule, name), None)


_delete = ctypes.CFUNCTYPE(None, c_void_p)(_forget)
_let_go = ctypes.PYFUNCTYPE(None, c_void_p)(_forget_unread)


@atexit.register
def _outlive() -> None:
    """See Note [The end of the process]."""
    harmless = ctypes.cast(ctypes.CDLL(None).labs, c_void_p).value
    for held in list(_lent.values()):
        managed = held[0]
        assert isinstance(managed, _Managed | _Versioned)
        managed.deleter = harmless
        for part in held:
            _python.Py_IncRef(ctypes.py_object(part))


# Note [The end of the process]
# A consumer may hold our memory longer than Python lives: torch frees its tensors when the process ends. It would then
# call a deleter that needs Python. So, before Python ends, what is still lent gets a deleter that is a function of C
# which does nothing, and stays in memory.
