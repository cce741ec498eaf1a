"""The way from a Python call into an entry, as machine code in the image.

    ptr tessera.stub(ptr self, ptr args, i64 count, ptr names)       METH_FASTCALL | METH_KEYWORDS
    tessera.method                                                   the PyMethodDef that makes it a Python function

The stub handles the usual call: exactly one contiguous, aligned array of the declared dtype and rank per parameter, no
keywords, sizes that agree; those whose memory results take are writable and lie apart from all others. It allocates
the other results, releases the interpreter lock, runs the entry and returns. For any other call it hands the same
arguments to `self`, which does the same in Python and knows how to complain.

It reads NumPy's arrays at the offsets of `tessera.numpy_abi`, which the runtime checks before it uses a stub. All
addresses of Python's and NumPy's objects come through import slots, so the image is the same in every process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessera import numpy_abi
from tessera.signature import STATUS_SIZE
from tesserac.base.dataclass import dataclass
from tesserac.ir.types import MemRefType
from tesserac.target.cpu.checks import all_hold, emit_shape, emit_values, negated, solve
from tesserac.target.cpu.system import HOST_ATTRIBUTES, call_imported, imported
from tesserac.target.emit import Function, Module
from tesserac.target.flow import if_return
from tesserac.target.llvm_types import I8, I32, I64, PTR, LType, Value, array, const_i64, const_int, structure, zero
from tesserac.target.sizes import solve_symbols
from tesserac.types.dims import product

_METH_KEYWORDS, _METH_FASTCALL = 0x0002, 0x0080


@dataclass(frozen=True)
class Shapes:
    """What a call takes and gives. `taken` are the parameters whose memory results take, by the position of the
    result."""

    parameters: Sequence[MemRefType]
    results: Sequence[MemRefType]
    returns_tuple: bool
    taken: Mapping[int, int]


def emit_stub(module: Module, entry: Function, name: str, shapes: Shapes) -> None:
    stub = _Stub(module, entry, shapes)
    stub.emit()
    module.bytes_constant("tessera.method_name", name.encode() + b"\0")
    method = structure(PTR, PTR, I32, PTR)
    flags = _METH_FASTCALL | _METH_KEYWORDS
    initial = f"{{ ptr @tessera.method_name, ptr @tessera.stub, i32 {flags}, ptr null }}"
    module.variable("tessera.method", method, initial, linkage="hidden")


class _Stub:
    def __init__(self, module: Module, entry: Function, shapes: Shapes) -> None:
        self.entry = entry
        self.parameters = shapes.parameters
        self.results = shapes.results
        self.returns_tuple = shapes.returns_tuple
        self.taken = shapes.taken
        self.function = module.function(
            "tessera.stub", PTR, [PTR, PTR, I64, PTR], attributes=HOST_ATTRIBUTES, linkage="internal"
        )
        self.b = self.function.builder
        self.symbols: dict[str, Value] = {}

    def emit(self) -> None:
        b = self.b
        _, arguments, count, names = self.function.args
        usual = [b.icmp("eq", count, const_i64(len(self.parameters))), b.icmp("eq", names, zero(PTR))]
        if_return(b, negated(b, all_hold(b, usual)), self._fall_back)
        arrays = [b.load(PTR, b.gep(PTR, arguments, i), 8) for i in range(len(self.parameters))]
        for place, (given, declared) in enumerate(zip(arrays, self.parameters, strict=True)):
            self._check_array(given, declared, place in self.taken.values())
        self._bind(arrays)
        self._check_apart(arrays)
        outputs = self._allocate(arrays)
        self._run(arrays, outputs)
        b.ret(self._returned(outputs))

    def _fall_back(self) -> None:
        self.b.ret(call_imported(self.b, "python.PyObject_Vectorcall", self.function.args, PTR))

    def _check_array(self, given: Value, declared: MemRefType, written: bool) -> None:
        """Leaves unless `given` is an array that the entry can read, and perhaps write, as it lies."""
        b = self.b
        type_ = self._field(PTR, given, numpy_abi.TYPE_OFFSET)
        if_return(b, b.icmp("ne", type_, imported(b, "numpy.ndarray")), self._fall_back)
        dtype = self._field(PTR, given, numpy_abi.DTYPE_OFFSET)
        rank = self._field(I32, given, numpy_abi.RANK_OFFSET)
        flags = self._field(I32, given, numpy_abi.FLAGS_OFFSET)
        writable = numpy_abi.WRITABLE if written else 0
        needed = const_int(I32, numpy_abi.C_CONTIGUOUS | numpy_abi.ALIGNED | writable)
        fits = [
            b.icmp("eq", dtype, imported(b, f"dtype.{declared.dtype.numpy_name}")),
            b.icmp("eq", rank, const_int(I32, len(declared.dims))),
            b.icmp("eq", b.binary("and", flags, needed), needed),
        ]
        if_return(b, negated(b, all_hold(b, fits)), self._fall_back)

    def _field(self, type_: LType, object_: Value, offset: int) -> Value:
        return self.b.load(type_, self.b.gep(I8, object_, offset), type_.bits // 8)

    def _bind(self, arrays: Sequence[Value]) -> None:
        """Gives every symbol its value and leaves where a declared size differs from the array's."""
        b, shapes = self.b, [self._shape(a, p) for a, p in zip(arrays, self.parameters, strict=True)]
        equations = solve_symbols([p.dims for p in self.parameters])
        for equation in equations:
            extent = shapes[equation.parameter][equation.axis]
            self.symbols[equation.symbol] = solve(b, equation, extent, self.symbols, self._fall_back)
        solved = {(e.parameter, e.axis) for e in equations}
        checked = [
            (dim, shapes[i][j])
            for i, parameter in enumerate(self.parameters)
            for j, dim in enumerate(parameter.dims)
            if (i, j) not in solved
        ]
        if not checked:
            return
        declared = emit_values(b, [dim for dim, _ in checked], self.symbols, self._fall_back)
        found = [extent for _, extent in checked]
        equal = all_hold(b, [b.icmp("eq", x, y) for x, y in zip(declared, found, strict=True)])
        if_return(b, negated(b, equal), self._fall_back)

    def _shape(self, given: Value, declared: MemRefType) -> list[Value]:
        if not declared.dims:
            return []
        shape = self._field(PTR, given, numpy_abi.SHAPE_OFFSET)
        return [self.b.load(I64, self.b.gep(I64, shape, i), 8) for i in range(len(declared.dims))]

    def _check_apart(self, arrays: Sequence[Value]) -> None:
        """Leaves where an array that is written shares memory with another."""
        b, written = self.b, sorted(self.taken.values())
        if not written:
            return
        bytes_of = [product(p.dims) * p.dtype.bytes for p in self.parameters]
        sizes = emit_values(b, bytes_of, self.symbols, self._fall_back)
        starts = [self._field(I64, a, numpy_abi.DATA_OFFSET) for a in arrays]
        ends = [b.add(start, size) for start, size in zip(starts, sizes, strict=True)]
        pairs = [(i, j) for i in written for j in range(len(arrays)) if i != j and not (j in written and j < i)]
        for i, j in pairs:
            overlap = b.binary("and", b.icmp("ult", starts[i], ends[j]), b.icmp("ult", starts[j], ends[i]))
            if_return(b, overlap, self._fall_back)

    def _allocate(self, arrays: Sequence[Value]) -> list[Value]:
        """An array per result: one that is given away, or a new one."""
        shapes = [emit_shape(self.b, r.dims, self.symbols, self._fall_back) for r in self.results]
        outputs: list[Value] = []
        for position, (result, shape) in enumerate(zip(self.results, shapes, strict=True)):
            if position in self.taken:
                outputs.append(arrays[self.taken[position]])
                call_imported(self.b, "python.Py_IncRef", [outputs[-1]])
            else:
                outputs.append(self._new_array(result, shape, list(outputs)))
        return outputs

    def _new_array(self, result: MemRefType, shape: Sequence[Value], before: Sequence[Value]) -> Value:
        b = self.b
        sizes = b.alloca(array(I64, max(len(shape), 1)), 8)
        for i, size in enumerate(shape):
            b.store(size, b.gep(I64, sizes, i), 8)
        dtype = imported(b, f"dtype.{result.dtype.numpy_name}")
        call_imported(b, "python.Py_IncRef", [dtype])  # PyArray_Empty keeps one reference
        arguments = [const_int(I32, len(shape)), sizes, dtype, const_int(I32, 0)]
        made = call_imported(b, f"numpy.{numpy_abi.EMPTY}", arguments, PTR)

        def give_up() -> None:
            self._release(before)
            call_imported(b, "python.PyErr_Clear", [])
            self._fall_back()

        if_return(b, b.icmp("eq", made, zero(PTR)), give_up)
        return made

    def _release(self, objects: Sequence[Value]) -> None:
        for object_ in objects:
            call_imported(self.b, "python.Py_DecRef", [object_])

    def _run(self, arrays: Sequence[Value], outputs: Sequence[Value]) -> None:
        b = self.b
        data = [self._field(I64, a, numpy_abi.DATA_OFFSET) for a in (*arrays, *outputs)]
        words = [*data, *(self.symbols[name] for name in sorted(self.symbols))]
        block = b.alloca(array(I64, max(len(words), 1)), 8)
        for i, word in enumerate(words):
            b.store(word, b.gep(I64, block, i), 8)
        status = b.alloca(array(I64, STATUS_SIZE // 8), 8)
        thread = call_imported(b, "python.PyEval_SaveThread", [], PTR)
        code = b.call(self.entry, [block, status])
        call_imported(b, "python.PyEval_RestoreThread", [thread])
        if_return(b, b.icmp("ne", code, const_int(I32, 0)), lambda: self._fail(status, arrays, outputs))

    def _fail(self, status: Value, arrays: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Has Python raise the error that the status stands for."""
        b = self.b
        self._release(outputs)
        content = call_imported(b, "python.PyBytes_FromStringAndSize", [status, const_i64(STATUS_SIZE)], PTR)
        if_return(b, b.icmp("eq", content, zero(PTR)), lambda: b.ret(zero(PTR)))
        arguments = b.alloca(array(PTR, 1 + len(arrays)), 8)
        for i, value in enumerate([content, *arrays]):
            b.store(value, b.gep(PTR, arguments, i), 8)
        count = const_i64(1 + len(arrays))
        handler = imported(b, "call.failed")
        raised = call_imported(b, "python.PyObject_Vectorcall", [handler, arguments, count, zero(PTR)], PTR)
        self._release([content])
        b.ret(raised)

    def _returned(self, outputs: Sequence[Value]) -> Value:
        """The results as Python wants them: a scalar for a 0-d array, a tuple for several."""
        values = [self._unwrapped(r, o) for r, o in zip(self.results, outputs, strict=True)]
        if not self.returns_tuple:
            return values[0]
        b = self.b
        both = call_imported(b, "python.PyTuple_New", [const_i64(len(values))], PTR)
        if_return(b, b.icmp("eq", both, zero(PTR)), lambda: b.ret(zero(PTR)))
        for i, value in enumerate(values):
            call_imported(b, "python.PyTuple_SetItem", [both, const_i64(i), value], I32)
        return both

    def _unwrapped(self, result: MemRefType, output: Value) -> Value:
        if result.dims:
            return output
        return call_imported(self.b, f"numpy.{numpy_abi.RETURN}", [output], PTR)
