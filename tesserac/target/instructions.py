"""Straight-line LLVM instructions. A `Builder` appends to one function; every method returns a typed `Value`.

Nothing here decides anything: one call is one instruction, except that integer arithmetic on constants folds and that
a block has one instruction of a kind with the same operands (local value numbering, also over a way out): LLVM's code
generator takes most of the time of a compilation, and all that it reads costs, though it throws it away. Float
operations carry no fast-math flags, so LLVM keeps them as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tesserac.target.llvm_types import (
    I1,
    I32,
    I64,
    VOID,
    LType,
    Value,
    const_int,
    like,
    undefined,
    vector,
)

if TYPE_CHECKING:
    from tesserac.target.emit import Function

NOTHING: Mapping[str, Value] = MappingProxyType({})


class Builder:
    """Appends to the current block of `function`. `flow.py` opens and closes blocks."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.module = function.module
        self._next = 0
        self._pure: dict[str, Value] = {}

    # --- text -----------------------------------------------------------------------------------------------------

    def fresh(self, type_: LType) -> Value:
        self._next += 1
        return Value(type_, f"%v{self._next}")

    def line(self, text: str) -> None:
        self.function.lines.append("  " + text)

    def define(self, type_: LType, text: str) -> Value:
        value = self.fresh(type_)
        self.line(f"{value.text} = {text}")
        return value

    def pure(self, type_: LType, text: str) -> Value:
        """What an instruction gives that reads only its operands: made once in a block."""
        found = self._pure.get(text)
        if found is None:  # as `define`, of which there are a hundred thousand in a large program
            self._next += 1
            name = f"%v{self._next}"
            self.function.lines.append(f"  {name} = {text}")
            found = self._pure[text] = Value(type_, name)
        return found

    def enter_block(self, label: str, known: Mapping[str, Value] = NOTHING) -> None:
        """Opens a block, which knows the values that `flow.py` says always reach it."""
        self.function.lines.append(f"{label}:")
        self.function.current = label
        self._pure = dict(known)

    def known(self) -> Mapping[str, Value]:
        """What instructions of this block gave, for one that always comes behind it."""
        return self._pure

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """Any two-operand instruction: add, sub, mul, sdiv, and, or, xor, shl, lshr, fadd, fsub, fmul, fdiv, ..."""
        _same_types(op, left, right)
        if right.number is not None and left.number is not None and op in _FOLDS:
            return const_int(left.type, _FOLDS[op](left.number, right.number))
        if op in _NEUTRAL and right.number == _NEUTRAL[op]:
            return left
        return self.pure(left.type, f"{op} {left}, {right.text}")

    def shift(self, op: str, value: Value, by: Value) -> Value:
        """shl, lshr or ashr by any number of bits: all of them, where it is negative or no less than there are."""
        bits = value.type.scalar.bits
        if by.number is not None and 0 <= by.number < bits:
            return self.binary(op, value, by)
        inside = self.icmp("ult", by, const_int(by.type, bits))
        zero = const_int(value.type, 0)
        if op != "ashr":
            return self.select(inside, self.binary(op, value, self.select(inside, by, zero)), zero)
        return self.binary(op, value, self.select(inside, by, const_int(by.type, bits - 1)))

    def add(self, left: Value, right: Value) -> Value:
        if left.number is not None and right.number is not None:
            return const_int(left.type, left.number + right.number)
        if right.number == 0:
            return left
        if left.number == 0:
            return right
        return self.binary("add", left, right)

    def sub(self, left: Value, right: Value) -> Value:
        if left.number is not None and right.number is not None:
            return const_int(left.type, left.number - right.number)
        return left if right.number == 0 else self.binary("sub", left, right)

    def mul(self, left: Value, right: Value) -> Value:
        if left.number is not None and right.number is not None:
            return const_int(left.type, left.number * right.number)
        if 0 in (left.number, right.number):
            return const_int(left.type, 0)
        if right.number == 1:
            return left
        return right if left.number == 1 else self.binary("mul", left, right)

    def fadd(self, left: Value, right: Value) -> Value:
        return self.binary("fadd", left, right)

    def fsub(self, left: Value, right: Value) -> Value:
        return self.binary("fsub", left, right)

    def fmul(self, left: Value, right: Value) -> Value:
        return self.binary("fmul", left, right)

    def fdiv(self, left: Value, right: Value) -> Value:
        return self.binary("fdiv", left, right)

    def fneg(self, value: Value) -> Value:
        return self.pure(value.type, f"fneg {value}")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("llvm.fma", a.type, [a, b, c], [a.type])

    def minimum_int(self, left: Value, right: Value) -> Value:
        if left.number is not None and right.number is not None:
            return const_int(left.type, min(left.number, right.number))
        return self.intrinsic("llvm.smin", left.type, [left, right], [left.type])

    def maximum_int(self, left: Value, right: Value) -> Value:
        if left.number is not None and right.number is not None:
            return const_int(left.type, max(left.number, right.number))
        return self.intrinsic("llvm.smax", left.type, [left, right], [left.type])

    def icmp(self, predicate: str, left: Value, right: Value) -> Value:
        _same_types("icmp", left, right)
        return self.pure(like(left.type, I1), f"icmp {predicate} {left}, {right.text}")

    def fcmp(self, predicate: str, left: Value, right: Value) -> Value:
        _same_types("fcmp", left, right)
        return self.pure(like(left.type, I1), f"fcmp {predicate} {left}, {right.text}")

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        _same_types("select", yes, no)
        return self.pure(yes.type, f"select {condition}, {yes}, {no}")

    def cast(self, op: str, value: Value, to: LType) -> Value:
        """sext, zext, trunc, fpext, fptrunc, bitcast, sitofp, ptrtoint, ..."""
        if value.type == to:
            return value
        return self.pure(to, f"{op} {value} to {to}")

    # --- vectors --------------------------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane; the scalar itself where `lanes` is 0."""
        if lanes == 0:
            return value
        whole = vector(value.type, lanes)
        if not value.text.startswith("%"):
            return Value(whole, f"splat ({value})", value.number)
        first = self.insert(undefined(whole), value, 0)
        return self.shuffle(first, undefined(whole), [0] * lanes)

    def shuffle(self, left: Value, right: Value, lanes: Sequence[int]) -> Value:
        mask = "zeroinitializer" if not any(lanes) else "<" + ", ".join(f"i32 {i}" for i in lanes) + ">"
        result = vector(left.type.scalar, len(lanes))
        return self.pure(result, f"shufflevector {left}, {right}, <{len(lanes)} x i32> {mask}")

    def extract(self, value: Value, lane: int | Value) -> Value:
        place = lane if isinstance(lane, Value) else const_int(I64, lane)
        return self.pure(value.type.scalar, f"extractelement {value}, {place}")

    def insert(self, value: Value, item: Value, lane: int | Value) -> Value:
        place = lane if isinstance(lane, Value) else const_int(I64, lane)
        return self.pure(value.type, f"insertelement {value}, {item}, {place}")

    def extract_value(self, value: Value, index: int, type_: LType) -> Value:
        """A field of a structure value, as inline assembly and `cmpxchg` give it."""
        return self.pure(type_, f"extractvalue {value}, {index}")

    def insert_value(self, value: Value, item: Value, index: int) -> Value:
        return self.pure(value.type, f"insertvalue {value}, {item}, {index}")

    # --- memory ---------------------------------------------------------------------------------------------------

    def gep(self, element: LType, base: Value, index: Value | int) -> Value:
        """The address `index` elements behind `base`."""
        place = index if isinstance(index, Value) else const_int(I64, index)
        if place.number == 0:
            return base
        return self.pure(base.type, f"getelementptr {element}, {base}, {place}")

    def addresses(self, element: LType, base: Value, places: Value) -> Value:
        """The addresses of elements behind `base`, one for each lane."""
        return self.pure(vector(base.type, places.type.lanes), f"getelementptr {element}, {base}, {places}")

    def load(self, type_: LType, address: Value, align: int, attributes: str = "", in_order: bool = False) -> Value:
        """`attributes` is metadata behind the alignment, such as `!invariant.load !0`. Loads `in_order` stay in the
        order in which they are written."""
        tail, kind = f", {attributes}" if attributes else "", "load volatile" if in_order else "load"
        return self.define(type_, f"{kind} {type_}, {address}, align {align}{tail}")

    def store(self, value: Value, address: Value, align: int) -> None:
        self.line(f"store {value}, {address}, align {align}")

    def prefetch_for_store(self, address: Value) -> None:
        """Asks for memory that will be written soon. An address outside of all memory does no harm."""
        write, near, data = (const_int(I32, n) for n in (1, 3, 1))
        self.intrinsic("llvm.prefetch", VOID, [address, write, near, data], [address.type])

    def prefetch(self, address: Value, near: int = 3) -> None:
        """Asks for memory that will be read soon: 3 for the nearest cache, 2 for the second. An address outside of all
        memory does no harm."""
        read, near_to, data = (const_int(I32, n) for n in (0, near, 1))
        self.intrinsic("llvm.prefetch", VOID, [address, read, near_to, data], [address.type])

    def load_atomic(self, type_: LType, address: Value, order: str) -> Value:
        return self.define(type_, f"load atomic {type_}, {address} {order}, align {type_.bits // 8}")

    def store_atomic(self, value: Value, address: Value, order: str) -> None:
        self.line(f"store atomic {value}, {address} {order}, align {value.type.bits // 8}")

    def atomic_rmw(self, op: str, address: Value, value: Value, order: str) -> Value:
        """Adds, exchanges, ... in memory; gives what stood there before."""
        return self.define(value.type, f"atomicrmw {op} {address}, {value} {order}")

    def compare_exchange(self, address: Value, expected: Value, new: Value, order: str) -> tuple[Value, Value]:
        """What stood there, and whether it was `expected` and was replaced."""
        both = LType(f"{{ {expected.type}, i1 }}", "")
        pair = self.define(both, f"cmpxchg {address}, {expected}, {new} {order} monotonic")
        return self.extract_value(pair, 0, expected.type), self.extract_value(pair, 1, I1)

    def alloca(self, type_: LType, align: int) -> Value:
        """Memory of this call. It is placed in the entry block, so a loop does not grow the stack."""
        value = self.fresh(LType("ptr", "p0"))
        self.function.entry.append(f"  {value.text} = alloca {type_}, align {align}")
        return value

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, callee: Value | Function, arguments: Sequence[Value], result: LType | None = None) -> Value:
        """Calls a function of this module, or a pointer (then `result` says what it gives)."""
        if isinstance(callee, Value):
            return self._call(f"{result or VOID} {callee.text}", arguments, result or VOID)
        _as_declared(callee, arguments)
        convention = f"{callee.convention} " if callee.convention else ""
        return self._call(f"{convention}{callee.result} @{callee.name}", arguments, callee.result)

    def _call(self, callee: str, arguments: Sequence[Value], result: LType, tail: str = "") -> Value:
        text = f"call {callee}({', '.join(map(str, arguments))}){tail}"
        if result == VOID:
            self.line(text)
            return undefined(VOID)
        return self.define(result, text)

    def intrinsic(self, name: str, result: LType, arguments: Sequence[Value], overloads: Sequence[LType] = ()) -> Value:
        """`llvm.fma` over [<4 x float>] is `llvm.fma.v4f32`; it is declared on first use."""
        full = ".".join([name, *(t.code for t in overloads)])
        self.module.declare(full, result, [a.type for a in arguments])
        if name in _PURE_INTRINSICS:
            return self.pure(result, f"call {result} @{full}({', '.join(map(str, arguments))})")
        return self._call(f"{result} @{full}", arguments, result)

    def asm(
        self,
        result: LType,
        template: str,
        constraints: str,
        arguments: Sequence[Value],
        pure: bool = False,
        attributes: str = "",
    ) -> Value:
        """Inline assembly. Unless `pure`, it has effects and stays in its place. `attributes` such as `convergent`."""
        effects = "" if pure else "sideeffect "
        quoted = template.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A").replace("\t", "\\09")
        tail = f" {attributes}" if attributes else ""
        return self._call(f'{result} asm {effects}"{quoted}", "{constraints}"', arguments, result, tail)

    def ret(self, value: Value | None = None) -> None:
        self.line("ret void" if value is None else f"ret {value}")

    def unreachable(self) -> None:
        self.line("unreachable")


def _same_types(op: str, left: Value, right: Value) -> None:
    if left.type is not right.type and left.type != right.type:
        raise TypeError(f"{op} of {left.type} and {right.type}")


def _as_declared(callee: Function, arguments: Sequence[Value]) -> None:
    """LLVM takes a call that is not of its callee's type, and such code does anything."""
    given, declared = (", ".join(str(value.type) for value in values) for values in (arguments, callee.args))
    if given != declared:
        raise TypeError(f"{callee.name} takes ({declared}), and is called with ({given})")


_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
}


_NEUTRAL = {"or": 0, "xor": 0, "shl": 0, "lshr": 0, "ashr": 0, "udiv": 1, "sdiv": 1}
"""Right operands that leave the left one as it is."""

_PURE_INTRINSICS = frozenset(
    f"llvm.{name}"
    for name in (
        *("fma", "sqrt", "fabs", "copysign", "floor", "ceil", "trunc", "roundeven", "maximum", "minimum"),
        *("smax", "smin", "umax", "umin", "abs", "ctpop", "ctlz", "cttz", "vector.reduce.or"),
    )
)
