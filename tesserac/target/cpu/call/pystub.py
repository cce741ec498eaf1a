"""The way from a Python call into an entry, as machine code in the image.

    ptr tessera.stub(ptr self, ptr args, i64 count, ptr names)       METH_FASTCALL | METH_KEYWORDS
    tessera.method                                                   the PyMethodDef that makes it a Python function

The stub is a module of its own, which knows of a function only what it takes and gives and that its entry is called
`tessera.entry`: functions that are alike in that share one object (`common_code.py`). `tessera.short` says of a call
whether it keeps the interpreter lock.

The stub handles the usual call: exactly one contiguous, aligned array of the declared dtype and rank per parameter, or
for a scalar a number (see `pynumbers.py`), no keyword but `out`, sizes that agree; those whose memory results take are
writable and lie apart from all others, and so are those that `out` gives. It allocates the other results, releases the
interpreter lock unless the call is over at once, runs the entry and returns. For any other call it hands the same
arguments to `self`, which does the same in Python and knows how to complain.

What differs between parameters stands in tables (`pytables.py`) that loops walk: a step of training takes and gives
hundreds of arrays, and code for each of them would be most of what there is to compile. Loops over a few are written
out, with what the tables say in place.

It reads NumPy's arrays at the offsets of `tessera.numpy_abi`, which the runtime checks before it uses a stub. All
addresses of Python's and NumPy's objects come through import slots, so the image is the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from tessera import numpy_abi
from tessera.signature import STATUS_INTERRUPTED, STATUS_RAISED, STATUS_SIZE
from tesserac.target.cpu.call.aliasing import are_apart
from tesserac.target.cpu.call.pynumbers import NO_NUMBER, emit_number
from tesserac.target.cpu.call.pytables import FRESH, Shapes, Table, Tables, needed_flags
from tesserac.target.cpu.host.short_calls import SHORT
from tesserac.target.emit import Function, Module
from tesserac.target.entry.checks import all_hold, emit_shape, emit_values, negated, solve
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported, imported
from tesserac.target.flow import choose, for_loop, if_else, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    LType,
    Value,
    array,
    const_i64,
    const_int,
    structure,
    zero,
)
from tesserac.target.sizes import solve_symbols

_METH_KEYWORDS, _METH_FASTCALL = 0x0002, 0x0080
FEW = 8
"""Parameters or results for which code is written out."""
_RELEASE, _STUB = "tessera.release", "tessera.stub"
_CALL = (PTR, PTR, I64, PTR)
MOST = 256
"""Stubs that a process remembers."""


@lru_cache(MOST)
def stub_text(shapes: Shapes, triple: str, layout: str) -> str:
    """The module of the stub, with its tables and what it calls, but for the entry."""
    module = Module("tessera.stub", triple, layout)
    _Stub(module, shapes).emit()
    return str(module)


def emit_method(module: Module, name: str) -> None:
    """What makes the stub a Python function with a name."""
    module.bytes_constant("tessera.method_name", name.encode() + b"\0")
    stub = module.declare(_STUB, PTR, _CALL, visibility="hidden")
    method, flags = structure(PTR, PTR, I32, PTR), _METH_FASTCALL | _METH_KEYWORDS
    initial = f"{{ ptr @tessera.method_name, {stub}, i32 {flags}, ptr null }}"
    module.variable("tessera.method", method, initial, linkage="hidden")


class _Stub:
    def __init__(self, module: Module, shapes: Shapes) -> None:
        self.entry = module.declare("tessera.entry", I32, [PTR, PTR], visibility="hidden")
        self.short = module.declare(SHORT, I1, [PTR], visibility="hidden")
        self.shapes = shapes
        self.tables = Tables(module, shapes)
        self.release = _emit_release(module)
        self.function = module.function(_STUB, PTR, _CALL, attributes=HOST_ATTRIBUTES, linkage="hidden")
        self.b = self.function.builder
        self.arguments = self.function.args[1]
        self.symbols: dict[str, Value] = {}
        self.equations = solve_symbols([p.dims for p in shapes.parameters])
        words = len(shapes.parameters) + len(shapes.results) + len(self.equations)
        self.block = self.b.alloca(array(I64, max(words, 1)), 8)
        """What the entry reads: where the elements of parameters and results are, then the sizes."""

    def emit(self) -> None:
        b, count = self.b, const_i64(len(self.shapes.parameters))
        if_return(b, b.icmp("ne", self.function.args[2], count), self._fall_back)
        out = self._out()
        if any(number != NO_NUMBER for number in self.tables.number_of.numbers):
            self.places = b.alloca(array(I64, len(self.shapes.parameters)), 8)
        dtypes = _Row(b, PTR, [imported(b, f"dtype.{name}") for name in self.tables.dtypes])
        _each(b, count, lambda i: self._check_array(i, dtypes))
        self._bind()
        sizes = _Row(b, I64, self._sizes())
        _each(b, count, lambda i: self._check_sizes(i, sizes))
        if self.shapes.taken:
            apart = are_apart(b, [(len(self.shapes.parameters), self._extent)])
            if_return(b, negated(b, apart), self._fall_back)
        outputs = b.alloca(array(PTR, max(len(self.shapes.results), 1)), 8)
        given = const_i64(len(self.shapes.results))

        def allocate() -> None:
            _each(b, given, lambda i: self._allocate(i, outputs, sizes, dtypes))

        if out is None:
            allocate()
        else:
            is_out = b.icmp("ne", out, zero(PTR))
            if_else(b, is_out, lambda: self._take_outputs(out, outputs, sizes, dtypes), allocate)
        self._run(outputs)
        if out is not None:
            if_return(b, b.icmp("ne", out, zero(PTR)), lambda: self._return_out(out, outputs))
        b.ret(self._returned(outputs))

    def _out(self) -> Value | None:
        """What is given as `out`, or null; leaves for any other keyword. None where there can be none."""
        b, names = self.b, self.function.args[3]
        is_plain = b.icmp("eq", names, zero(PTR))
        if not self.shapes.takes_out:
            if_return(b, negated(b, is_plain), self._fall_back)
            return None

        def keyword() -> Sequence[Value]:
            count = call_imported(b, "python.PyTuple_Size", [names], I64)
            if_return(b, b.icmp("ne", count, const_i64(1)), self._fall_back)
            name = call_imported(b, "python.PyTuple_GetItem", [names, const_i64(0)], PTR)
            if_return(b, b.icmp("ne", name, imported(b, "call.out")), self._fall_back)
            return [self._array(len(self.shapes.parameters))]

        (out,) = choose(b, is_plain, lambda: [zero(PTR)], keyword)
        return out

    def _fall_back(self) -> None:
        self.b.ret(call_imported(self.b, "python.PyObject_Vectorcall", self.function.args, PTR))

    # --- what is given ------------------------------------------------------------------------------------------------

    def _array(self, number: Value | int) -> Value:
        return self.b.load(PTR, self.b.gep(PTR, self.arguments, number), 8)

    def _field(self, type_: LType, object_: Value, offset: int) -> Value:
        return self.b.load(type_, self.b.gep(I8, object_, offset), type_.bits // 8)

    def _check_array(self, number: Value, dtypes: _Row) -> None:
        """Leaves unless an argument is an array that the entry can read, and perhaps write, as it lies, or a number."""
        b, given = self.b, self._array(number)
        type_ = self._field(PTR, given, numpy_abi.TYPE_OFFSET)
        is_array = b.icmp("eq", type_, imported(b, "numpy.ndarray"))

        def of_array() -> Sequence[Value]:
            self._check_fields(number, given, dtypes)
            return [self._field(I64, given, numpy_abi.DATA_OFFSET)]

        if self.tables.takes_number(number):
            (data,) = choose(b, is_array, of_array, lambda: [self._number(number, given)])
        else:
            if_return(b, negated(b, is_array), self._fall_back)
            (data,) = of_array()
        b.store(data, b.gep(I64, self.block, number), 8)

    def _number(self, number: Value, given: Value) -> Value:
        """Where a number stands, which is not an array."""
        b = self.b
        place = b.gep(I64, self.places, number)
        taken = b.call(emit_number(b.module), [given, self.tables.number_of.at(b, number), place])
        if_return(b, negated(b, taken), self._fall_back)
        return b.cast("ptrtoint", place, I64)

    def _check_fields(self, number: Value, given: Value, dtypes: _Row) -> None:
        tables, dtype = self.tables, dtypes.at(self.b, self.tables.dtype_of.at(self.b, number))
        self._check_layout(given, dtype, tables.rank.at(self.b, number), tables.flags.at(self.b, number))

    def _check_layout(self, given: Value, dtype: Value, rank: Value, flags: Value) -> None:
        b, own = self.b, self._field(I32, given, numpy_abi.FLAGS_OFFSET)
        fits = [
            b.icmp("eq", self._field(PTR, given, numpy_abi.DTYPE_OFFSET), dtype),
            b.icmp("eq", self._field(I32, given, numpy_abi.RANK_OFFSET), rank),
            b.icmp("eq", b.binary("and", own, flags), flags),
        ]
        if_return(b, negated(b, all_hold(b, fits)), self._fall_back)

    def _bind(self) -> None:
        """Gives every symbol its value."""
        for equation in self.equations:
            extent = self._dim(self._array(equation.parameter), const_i64(equation.axis))
            self.symbols[equation.symbol] = solve(self.b, equation, extent, self.symbols, self._fall_back)

    def _sizes(self) -> list[Value]:
        """The value of each size that the tables speak of."""
        given = emit_values(self.b, self.tables.taken_sizes, self.symbols, self._fall_back)
        return [*given, *emit_shape(self.b, self.tables.given_sizes, self.symbols, self._fall_back)]

    def _check_sizes(self, number: Value, sizes: _Row) -> None:
        """Leaves where a declared size differs from the array's."""
        check = self._same_size(lambda: self._array(number))  # a number has no dims
        self._each_size(self.tables.rank, self.tables.first_size, number, sizes, check)

    def _same_size(self, given: Callable[[], Value]) -> Callable[[Value, Value], None]:
        b = self.b

        def check(axis: Value, size: Value) -> None:
            if_return(b, b.icmp("ne", self._dim(given(), axis), size), self._fall_back)

        return check

    def _dim(self, given: Value, axis: Value) -> Value:
        return self.b.load(I64, self.b.gep(I64, self._field(PTR, given, numpy_abi.SHAPE_OFFSET), axis), 8)

    def _each_size(
        self, rank: Table, first: Table, number: Value, sizes: _Row, body: Callable[[Value, Value], None]
    ) -> None:
        b, start = self.b, _wide(self.b, first.at(self.b, number))

        def one(axis: Value) -> None:
            body(axis, sizes.at(b, self.tables.size_of.at(b, b.add(start, axis))))

        _each(b, _wide(b, rank.at(b, number)), one)

    def _extent(self, number: Value) -> tuple[Value, Value, Value]:
        """Where an array starts and ends, and whether it is written."""
        b, start = self.b, self.b.load(I64, self.b.gep(I64, self.block, number), 8)
        rank, size = self.tables.rank.at(b, number), self.tables.bytes_of.at(b, number)
        flag = b.binary("and", self.tables.flags.at(b, number), const_int(I32, numpy_abi.WRITABLE))
        return start, b.add(start, self._bytes(lambda: self._array(number), rank, size)), _wide(b, flag)

    def _bytes(self, given: Callable[[], Value], rank: Value, element: Value) -> Value:
        """The bytes of an array that there is: their number fits."""
        b = self.b

        def one(axis: Value, so_far: list[Value]) -> Sequence[Value]:
            return [b.mul(so_far[0], self._dim(given(), axis))]

        return for_loop(b, const_i64(0), _wide(b, rank), const_i64(1), [_wide(b, element)], one)[0]

    # --- what is returned ---------------------------------------------------------------------------------------------

    def _allocate(self, number: Value, outputs: Value, sizes: _Row, dtypes: _Row) -> None:
        """The array of a result: one that is given away, or a new one."""
        b, of = self.b, self.tables.result_of.at(self.b, number)

        def take() -> Sequence[Value]:
            taken = self._array(_wide(b, of))
            call_imported(b, "python.Py_IncRef", [taken])
            return [taken]

        def give_up() -> None:
            b.call(self.release, [outputs, number])
            call_imported(b, "python.PyErr_Clear", [])
            self._fall_back()

        def make() -> Sequence[Value]:
            return [self._new_array(number, sizes, dtypes)]

        if of.number is not None:
            (made,) = make() if of.number == FRESH else take()
        else:
            (made,) = choose(b, b.icmp("eq", of, const_int(I32, FRESH)), make, take)
        if_return(b, b.icmp("eq", made, zero(PTR)), give_up)
        b.store(made, b.gep(PTR, outputs, number), 8)

    def _take_outputs(self, out: Value, outputs: Value, sizes: _Row, dtypes: _Row) -> None:
        """The arrays of the caller, each as its result is; leaves where one is not, or where two share memory."""
        b, tables, count = self.b, self.tables, len(self.shapes.results)
        if self.shapes.returns_tuple:
            type_ = self._field(PTR, out, numpy_abi.TYPE_OFFSET)
            if_return(b, b.icmp("ne", type_, imported(b, "python.PyTuple_Type")), self._fall_back)
            length = call_imported(b, "python.PyTuple_Size", [out], I64)
            if_return(b, b.icmp("ne", length, const_i64(count)), self._fall_back)

        def check(number: Value, _: list[Value]) -> Sequence[Value]:
            item = call_imported(b, "python.PyTuple_GetItem", [out, number], PTR) if self.shapes.returns_tuple else out
            type_ = self._field(PTR, item, numpy_abi.TYPE_OFFSET)
            if_return(b, b.icmp("ne", type_, imported(b, "numpy.ndarray")), self._fall_back)
            dtype, rank = dtypes.at(b, tables.result_dtype_of.at(b, number)), tables.result_rank.at(b, number)
            self._check_layout(item, dtype, rank, const_int(I32, needed_flags(written=True)))
            same = self._same_size(lambda: item)
            self._each_size(tables.result_rank, tables.result_first_size, number, sizes, same)
            b.store(item, b.gep(PTR, outputs, number), 8)
            return ()

        for_loop(b, const_i64(0), const_i64(count), const_i64(1), [], check)
        groups = [(len(self.shapes.parameters), self._extent), (count, lambda i: self._out_extent(outputs, i))]
        if_return(b, negated(b, are_apart(b, groups)), self._fall_back)

        def keep(number: Value) -> None:
            call_imported(b, "python.Py_IncRef", [b.load(PTR, b.gep(PTR, outputs, number), 8)])

        _each(b, const_i64(count), keep)

    def _out_extent(self, outputs: Value, number: Value) -> tuple[Value, Value, Value]:
        b, given = self.b, self.b.load(PTR, self.b.gep(PTR, outputs, number), 8)
        rank, size = self.tables.result_rank.at(b, number), self.tables.result_bytes_of.at(b, number)
        start = self._field(I64, given, numpy_abi.DATA_OFFSET)
        return start, b.add(start, self._bytes(lambda: given, rank, size)), const_i64(1)

    def _return_out(self, out: Value, outputs: Value) -> None:
        self.b.call(self.release, [outputs, const_i64(len(self.shapes.results))])
        call_imported(self.b, "python.Py_IncRef", [out])
        self.b.ret(out)

    def _new_array(self, number: Value, sizes: _Row, dtypes: _Row) -> Value:
        b, tables = self.b, self.tables
        shape = b.alloca(array(I64, max(tables.most_dims, 1)), 8)

        def put(axis: Value, size: Value) -> None:
            b.store(size, b.gep(I64, shape, axis), 8)

        self._each_size(tables.result_rank, tables.result_first_size, number, sizes, put)
        dtype = dtypes.at(b, tables.result_dtype_of.at(b, number))
        call_imported(b, "python.Py_IncRef", [dtype])  # PyArray_Empty keeps one reference
        arguments = [tables.result_rank.at(b, number), shape, dtype, const_int(I32, 0)]
        return call_imported(b, f"numpy.{numpy_abi.EMPTY}", arguments, PTR)

    def _run(self, outputs: Value) -> None:
        b, taken, given = self.b, len(self.shapes.parameters), len(self.shapes.results)
        symbols = [self.symbols[name] for name in sorted(self.symbols)]
        results = b.gep(I64, self.block, taken)

        def put(number: Value) -> None:
            data = self._field(I64, b.load(PTR, b.gep(PTR, outputs, number), 8), numpy_abi.DATA_OFFSET)
            b.store(data, b.gep(I64, results, number), 8)

        _each(b, const_i64(given), put)
        for place, value in enumerate(symbols, taken + given):
            b.store(value, b.gep(I64, self.block, place), 8)
        status = b.alloca(array(I64, STATUS_SIZE // 8), 8)
        is_long = negated(b, b.call(self.short, [self.block], I1))

        def give_up_lock() -> Sequence[Value]:
            return [call_imported(b, "python.PyEval_SaveThread", [], PTR)]

        (thread,) = choose(b, is_long, give_up_lock, lambda: [zero(PTR)])
        code = b.call(self.entry, [self.block, status], I32)
        if_then(b, is_long, lambda: _take_lock(b, thread))
        if_return(b, b.icmp("ne", code, const_int(I32, 0)), lambda: self._end(code, status, outputs))

    def _end(self, code: Value, status: Value, outputs: Value) -> None:
        """Raises what a handler of a signal did, where one ended the call, or the error of the status."""
        b = self.b
        b.call(self.release, [outputs, const_i64(len(self.shapes.results))])
        stopped = b.icmp("eq", code, const_int(I32, STATUS_INTERRUPTED))

        def raise_() -> None:
            raised = [self._field(PTR, status, STATUS_RAISED + 8 * i) for i in range(3)]
            call_imported(b, "python.PyErr_Restore", raised)
            b.ret(zero(PTR))

        if_return(b, stopped, raise_)
        self._fail(status)

    def _fail(self, status: Value) -> None:
        """Has Python raise the error that the status stands for."""
        b, count = self.b, len(self.shapes.parameters)
        content = call_imported(b, "python.PyBytes_FromStringAndSize", [status, const_i64(STATUS_SIZE)], PTR)
        if_return(b, b.icmp("eq", content, zero(PTR)), lambda: b.ret(zero(PTR)))
        arguments = b.alloca(array(PTR, 1 + count), 8)
        b.store(content, arguments, 8)
        _each(b, const_i64(count), lambda i: b.store(self._array(i), b.gep(PTR, b.gep(PTR, arguments, 1), i), 8))
        handler = imported(b, "call.failed")
        told = [handler, arguments, const_i64(1 + count), zero(PTR)]
        raised = call_imported(b, "python.PyObject_Vectorcall", told, PTR)
        call_imported(b, "python.Py_DecRef", [content])
        b.ret(raised)

    def _returned(self, outputs: Value) -> Value:
        """The results as Python wants them: a scalar for a 0-d array, a tuple for several."""
        b, count = self.b, const_i64(len(self.shapes.results))
        if not self.shapes.returns_tuple:
            return self._unwrapped(outputs, const_i64(0))
        both = call_imported(b, "python.PyTuple_New", [count], PTR)
        if_return(b, b.icmp("eq", both, zero(PTR)), lambda: b.ret(zero(PTR)))

        def put(number: Value) -> None:
            call_imported(b, "python.PyTuple_SetItem", [both, number, self._unwrapped(outputs, number)], I32)

        _each(b, count, put)
        return both

    def _unwrapped(self, outputs: Value, number: Value) -> Value:
        """PyArray_Return gives back an array that is not 0-d."""
        output = self.b.load(PTR, self.b.gep(PTR, outputs, number), 8)
        if number.number is not None and self.shapes.results[number.number].dims:
            return output
        return call_imported(self.b, f"numpy.{numpy_abi.RETURN}", [output], PTR)


def _take_lock(b: Builder, thread: Value) -> None:
    call_imported(b, "python.PyEval_RestoreThread", [thread])


def _each(b: Builder, count: Value, body: Callable[[Value], None]) -> None:
    def one(number: Value, _: list[Value]) -> Sequence[Value]:
        body(number)
        return ()

    if count.number is None or count.number > FEW:
        for_loop(b, const_i64(0), count, const_i64(1), [], one)
        return
    for number in range(count.number):
        body(const_i64(number))


def _wide(b: Builder, number: Value) -> Value:
    return b.cast("sext", number, I64) if number.number is None else const_i64(number.number)


class _Row:
    """Values of one type, side by side in the memory of this call."""

    def __init__(self, b: Builder, type_: LType, values: Sequence[Value]) -> None:
        self._values = values
        self._type = type_
        self._block = b.alloca(array(type_, max(len(values), 1)), 8)
        for place, value in enumerate(values):
            b.store(value, b.gep(type_, self._block, place), 8)

    def at(self, b: Builder, place: Value) -> Value:
        if place.number is not None:
            return self._values[place.number]
        return b.load(self._type, b.gep(self._type, self._block, _wide(b, place)), 8)


def _emit_release(module: Module) -> Function:
    """void tessera.release(ptr objects, i64 count)"""
    function = module.function(_RELEASE, VOID, [PTR, I64], attributes=HOST_ATTRIBUTES, linkage="internal")
    b, (objects, count) = function.builder, function.args

    def one(number: Value, _: list[Value]) -> Sequence[Value]:
        call_imported(b, "python.Py_DecRef", [b.load(PTR, b.gep(PTR, objects, number), 8)])
        return ()

    for_loop(b, const_i64(0), count, const_i64(1), [], one)
    b.ret()
    return function
