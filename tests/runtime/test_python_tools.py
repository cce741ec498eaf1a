"""What Python's own tools see of a module, and arrays whose dtype NumPy's reader of DLPack does not know."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera import dlpack
from tessera.values import viewed

TEXT = '''
def f(x: Tensor[N, M, bf16], k: int = 2, *, s: f32 = 1.5, w: Tensor[N, f32] | None = None) -> Tensor[N, M, bf16]:
    """Twice x."""
    return x + x

def plain(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x
'''
BFLOAT16 = 4


class _Owner(np.ndarray):
    """An array that something can wait for the end of."""


class _Tensor:
    """A tensor of another library: bits that its capsule says to be bf16."""

    def __init__(self, bits: np.ndarray) -> None:
        self._bits = bits

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.HOST, 0

    def __dlpack__(self, **options: object) -> object:
        capsule = self._bits.__dlpack__()
        address = dlpack._python.PyCapsule_GetPointer(id(capsule), b"dltensor")
        managed = dlpack._Managed.from_address(address)
        managed.tensor.code = BFLOAT16
        return capsule


def of_bits(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).view(np.uint16)


WHOLE = of_bits(np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("bits", [WHOLE, WHOLE.T, WHOLE[:, ::2], WHOLE[:0], WHOLE[1:, :1]])
def test_narrow_arrays_of_other_libraries(bits: np.ndarray) -> None:
    result = tessera.compile(TEXT).f(_Tensor(bits))
    np.testing.assert_array_equal(np.asarray(result, "f4"), 2 * bits.view(ml_dtypes.bfloat16).astype("f4"))


def test_their_memory_lives_as_long_as_an_array_over_it() -> None:
    bits = of_bits(np.arange(4.0)).view(_Owner)
    end = weakref.ref(bits)
    array = viewed(_Tensor(bits))
    assert isinstance(array, np.ndarray)
    del bits
    gc.collect()
    assert end() is not None and array.astype("f4").tolist() == [0, 1, 2, 3]
    del array
    gc.collect()
    assert end() is None


def test_signature_and_doc() -> None:
    module = tessera.compile(TEXT)
    assert str(inspect.signature(module.f)) == "(x, k=2, *, s=1.5, w=None)"
    assert module.f.__doc__ == "Twice x."
    assert module.plain.__doc__ is None


def test_structs_are_copied_and_not_pickled() -> None:
    module = tessera.compile("struct A[D]:\n    w: Tensor[D, f32]\n\nstruct B[D]:\n    l: List[2, A[D]]\n")
    value = module.B(l=[module.A(w=np.ones(3, "f4"))] * 2)
    shallow, deep = copy.copy(value), copy.deepcopy(value)
    assert shallow.l is value.l and deep.l[0].w is not value.l[0].w and deep.l[0] is deep.l[1]
    assert type(deep) is module.B
    with pytest.raises(tessera.TesseraError, match="cannot be pickled"):
        pickle.dumps(value)


def test_functions_copy_as_those_of_python_and_are_not_pickled() -> None:
    module = tessera.compile(TEXT)
    assert copy.copy(module.f) is module.f and copy.deepcopy({"f": module.f})["f"] is module.f
    for value in (module, module.f):
        with pytest.raises(tessera.TesseraError, match="cannot be pickled"):
            pickle.dumps(value)
