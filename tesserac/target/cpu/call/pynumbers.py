"""Numbers as arguments of scalar parameters, in the stub: what `tessera.arguments` does, without arrays.

    i1 tessera.number(ptr given, i32 kind, ptr place)        whether `given` is a number of that kind, now at `place`

A float, or an int for a parameter of floats, is rounded once, as NumPy rounds it; an int that its dtype does not hold
is left to Python, which knows what to say. So are bools, and dtypes that are narrower than their registers. A scalar of
NumPy's is taken by a parameter of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from tessera import numpy_abi
from tesserac.target import llvm_types as llvm
from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported, imported
from tesserac.target.flow import if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I8, PTR, Value, const_float, const_i64, const_int, zero
from tesserac.types.dtype import F32, F64, I32, I64, DType

NAME = "tessera.number"
NO_NUMBER = 0
_DTYPES = (F32, F64, I32, I64)
_FLOATS = 2
"""How many of them are floats."""


def number_kind(dtype: DType) -> int:
    """What the tables say of a scalar parameter."""
    return _DTYPES.index(dtype) + 1 if dtype in _DTYPES else NO_NUMBER


def emit_number(module: Module) -> Function:
    """The function of a module; made when it is first asked for."""
    return module.find_function(NAME) or _number(module)


def _number(module: Module) -> Function:
    function = module.function(NAME, I1, [PTR, llvm.I32, PTR], attributes=HOST_ATTRIBUTES, linkage="internal")
    b, (given, kind, place) = function.builder, function.args
    type_ = b.load(PTR, b.gep(I8, given, numpy_abi.TYPE_OFFSET), 8)

    def refuse() -> None:
        b.ret(const_int(I1, 0))

    def accept() -> None:
        b.ret(const_int(I1, 1))

    def scalar() -> None:
        b.store(b.load(llvm.I64, b.gep(I8, given, numpy_abi.SCALAR_OFFSET), 8), place, 8)
        accept()

    is_float = b.icmp("ule", kind, const_int(llvm.I32, _FLOATS))
    if_return(b, b.icmp("eq", kind, const_int(llvm.I32, NO_NUMBER)), refuse)
    from_python = _either(b, type_, "python.PyFloat_Type", "python.PyLong_Type")
    is_int = b.icmp("eq", type_, imported(b, "python.PyLong_Type"))
    takes_float = b.binary("and", from_python, is_float)
    takes_int = b.binary("and", is_int, b.binary("xor", is_float, const_int(I1, 1)))

    def floats() -> None:
        _store_float(b, given, kind, place, refuse)
        accept()

    def ints() -> None:
        _store_int(b, given, kind, place, refuse)
        accept()

    if_return(b, takes_float, floats)
    if_return(b, takes_int, ints)
    for number, dtype in enumerate(_DTYPES, 1):
        same = b.icmp("eq", kind, const_int(llvm.I32, number))
        of_type = b.icmp("eq", type_, imported(b, f"scalar.{dtype.numpy_name}"))
        if_return(b, b.binary("and", same, of_type), scalar)
    refuse()
    return function


def _either(b: Builder, type_: Value, *names: str) -> Value:
    first, second = (b.icmp("eq", type_, imported(b, name)) for name in names)
    return b.binary("or", first, second)


def _store_float(b: Builder, given: Value, kind: Value, place: Value, refuse: Callable[[], None]) -> None:
    value = call_imported(b, "python.PyFloat_AsDouble", [given], llvm.F64)
    _refuse_after_error(b, b.fcmp("oeq", value, const_float(llvm.F64, -1.0)), refuse)
    b.store(value, place, 8)
    narrow = b.icmp("eq", kind, const_int(llvm.I32, number_kind(F32)))
    if_then(b, narrow, lambda: b.store(b.cast("fptrunc", value, llvm.F32), place, 4))


def _store_int(b: Builder, given: Value, kind: Value, place: Value, refuse: Callable[[], None]) -> None:
    value = call_imported(b, "python.PyLong_AsLongLong", [given], llvm.I64)
    _refuse_after_error(b, b.icmp("eq", value, const_i64(-1)), refuse)
    small = b.cast("sext", b.cast("trunc", value, llvm.I32), llvm.I64)
    narrow = b.icmp("eq", kind, const_int(llvm.I32, number_kind(I32)))
    if_return(b, b.binary("and", narrow, b.icmp("ne", small, value)), refuse)
    b.store(value, place, 8)


def _refuse_after_error(b: Builder, suspicious: Value, refuse: Callable[[], None]) -> None:
    """-1 is a number too: only then is Python asked whether it could not convert."""

    def clear() -> None:
        call_imported(b, "python.PyErr_Clear", [])
        refuse()

    def ask() -> None:
        raised = call_imported(b, "python.PyErr_Occurred", [], PTR)
        if_return(b, b.icmp("ne", raised, zero(PTR)), clear)

    if_then(b, suspicious, ask)
