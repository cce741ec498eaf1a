"""A GPU program as a Python callable.

Enters: what the caller wrote. Leaves: NumPy arrays, or the same `TesseraError` that the CPU's code would give. All that
is wrong with a call is found before the device is touched.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tessera.arguments import Array, arrays_of
from tessera.call import bind_symbols, failed_status, result_arrays
from tessera.donation import check_apart
from tessera.errors import TesseraError
from tessera.gpu_program import GpuProgram, Require
from tessera.signature import STATUS_BAD_INDEX, STATUS_GUARD, STATUS_TOO_LARGE, STATUS_VALUES, Signature
from tessera.sizes import LARGEST_SIZE


class GpuFunction:
    """Calls a program. Inputs are copied to the device and results back."""

    def __init__(self, program: GpuProgram) -> None:
        self.program = program
        self.signature = program.signature

    def __call__(self, *args: object, **kwargs: object) -> object:
        from tessera.cuda import GpuCall

        arrays = arrays_of(self.signature, args, kwargs)
        symbols = checked_symbols(self.program, arrays)
        check_apart(self.signature, arrays)
        outputs = result_arrays(self.signature, arrays, symbols)
        call = GpuCall(self.program, arrays, symbols)
        call.execute()
        call.read_results(outputs)
        results = tuple(array if array.ndim else array[()] for array in outputs)
        return results if self.signature.returns_tuple else results[0]


def checked_symbols(program: GpuProgram, arrays: Sequence[Array]) -> dict[str, int]:
    """The value of every symbol, once all checks hold."""
    symbols = bind_symbols(program.signature, [array.shape for array in arrays])
    for check in program.checks:
        require(program.signature, Require(check.condition, check.site, None), symbols)
    return symbols


def require(signature: Signature, check: Require, symbols: Mapping[str, int]) -> None:
    """Raises the error of a check that does not hold; `symbols` may have counters of loops."""
    condition, code = check.condition, STATUS_GUARD if check.shown is None else STATUS_BAD_INDEX
    if condition.holds(symbols):
        return
    code = STATUS_TOO_LARGE if condition.kind == "fits" else code
    first = condition.left if check.shown is None else check.shown
    sides = (first.evaluate(symbols), condition.right.evaluate(symbols))
    raise failed(signature, code, check.site, sides, symbols)


def failed(
    signature: Signature, code: int, site: int, values: Sequence[int], symbols: Mapping[str, int]
) -> TesseraError:
    """The error of a call that ends at `site`."""
    told = [max(-LARGEST_SIZE, min(value, LARGEST_SIZE)) for value in values] + [0] * (STATUS_VALUES - len(values))
    status = struct.pack(f"<ii{STATUS_VALUES}q", code, site, *told)
    sizes = {name: value for name, value in symbols.items() if name in signature.symbols}  # and no counters of loops
    return failed_status(signature, status, sizes)
