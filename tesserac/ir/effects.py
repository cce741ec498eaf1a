"""Forms that do something besides computing: they keep their place in the program, which is their attribute `io`.

    form.assert(%ok) {io = [0], text = "positive"}
        Ends the call with a status unless the bool holds. One that `compares` holds where a kernel gives what it
        implements.
    form.require() {guard = #guard<...>, io = [1], operator = "x[i - 1]", shown = `i - 1`}
        Ends the call with a status unless the guard holds of the sizes and counters at this place. `operator` is the
        expression that needs it, `shown` the index that was written, where it is one.
    form.print(%x, %n) {io = [1], pieces = ["x = ", [".3f"], " of ", [""], "\\n"], to = "output"}
        Writes text and values one after the other; a value stands as a list of its format, and behind it `complex`
        where the value is the parts of complex numbers, side by side. A `note` is not written, but belongs to what is
        said of the assertion that fails next.
"""

from __future__ import annotations

from tesserac.ir.core import Module, Op, define_op
from tesserac.ir.forms import Guard
from tesserac.ir.ordering import IO
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.types.dtype import BOOL

STANDARD_OUTPUT, NOTE = "output", "note"
COMPLEX = "complex"
COMPARES = "compares"
WATCHED = "watched"
"""An assertion that no program wrote: a debug build has it behind an operator."""
EFFECTS = ("form.assert", "form.require", "form.print")


def asserting_symbols(module: Module) -> frozenset[str]:
    """Of functions that only compute, but for what they, or what they call, assert."""
    functions = {function.symbol: function for function in module.ops}
    known: dict[str, bool] = {}

    def asserts(symbol: str) -> bool:
        if symbol not in known:
            known[symbol] = False  # of one that calls itself, which inlining refuses
            known[symbol] = symbol in functions and all(only(op) for op in functions[symbol].body.ops)
        return known[symbol]

    def only(op: Op) -> bool:
        callee = op.attrs.get("callee")
        if isinstance(callee, str):
            return asserts(callee)
        claims = op.name in ("form.assert", "form.require") or op.attrs.get("to") == NOTE
        computes = op.opdef.pure or op.opdef.terminator or claims
        return computes and all(only(inner) for region in op.regions for inner in region.block.ops)

    return frozenset(symbol for symbol in functions if asserts(symbol))


def _verify_assert(op: Op) -> None:
    flag = len(op.operands) == 1 and op.operands[0].type == TensorType((), BOOL)
    require(flag and not op.results, "takes one bool", op)
    require(isinstance(op.attrs.get("text"), str), "says what is asserted", op)


def _verify_require(op: Op) -> None:
    require(isinstance(op.attrs.get("guard"), Guard) and not op.operands and not op.results, "has a guard", op)
    require(isinstance(op.attrs.get("operator"), str), "says what needs it", op)


def _verify_print(op: Op) -> None:
    pieces = op.attrs.get("pieces")
    require(isinstance(pieces, tuple) and not op.results, "needs pieces", op)
    assert isinstance(pieces, tuple)
    require(op.attrs.get("to") in (STANDARD_OUTPUT, NOTE), "says where to", op)
    require(sum(isinstance(piece, tuple) for piece in pieces) == len(op.operands), "has one place per value", op)


define_op("form.assert", pure=False, verify=_verify_assert, effect=IO)
define_op("form.require", pure=False, verify=_verify_require, effect=IO)
define_op("form.print", pure=False, verify=_verify_print, effect=IO)
