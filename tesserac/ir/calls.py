"""Functions that stay functions: calls at the levels behind the Graph, where names of operators have stopped.

form.call(x...) {callee, dims, io} : tensor...
    The results of a function of the module, which has the attribute `called`. `dims` pairs each size of the callee with
    what it is here. Nothing is fused across it, and results never alias arguments.

Which functions stay is decided in one place, `graph/calling.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tesserac.ir.core import Attr, Module, Op, Value, VerifyError, attr, define_op
from tesserac.ir.types import MemRefType, TensorType, Type
from tesserac.ir.verify import require
from tesserac.types.dims import Dim

INVOKE = "form.call"
CALLED = "called"
"""The attribute of a function that is called and not written out, which says why, and of its calls in the Graph."""


def is_called(function: Op) -> bool:
    """Whether a function stays one because others call it."""
    return CALLED in function.attrs


def callee_of(call: Op) -> str:
    return attr(call, "callee", str)


def call_dims(call: Op) -> dict[str, Dim]:
    """What each symbol of the callee is at this call."""
    return named_dims(call.attrs["dims"])


def named_dims(pairs: Attr) -> dict[str, Dim]:
    """Symbols with what they are."""
    assert isinstance(pairs, tuple)
    dims: dict[str, Dim] = {}
    for pair in pairs:
        assert isinstance(pair, tuple)
        name, dim = pair
        assert isinstance(name, str) and isinstance(dim, Dim)
        dims[name] = dim
    return dims


def own_symbols(function: Op) -> tuple[str, ...]:
    """The sizes that a function is given, by those of its arguments."""
    return symbols_in([arg.type for arg in function.body.args])


def symbols_in(types: Iterable[Type]) -> tuple[str, ...]:
    dims = [dim for ty in types if isinstance(ty, TensorType | MemRefType) for dim in ty.dims]
    return tuple(sorted({name for dim in dims for name in dim.symbols()}))


def reached_functions(module: Module, entry: str, call: str) -> list[Op]:
    """A function and what it reaches by operations called `call`, each behind all that it calls itself."""
    found: dict[str, Op] = {}

    def visit(name: str) -> None:
        function = module.lookup(name)
        for op in _calls(function, call):
            if callee_of(op) not in found:
                visit(callee_of(op))
        found[name] = function

    visit(entry)
    return list(found.values())


def _calls(function: Op, call: str) -> Iterator[Op]:
    return (op for op in function.walk() if op.name == call)


def verify_calls(module: Module) -> None:
    """Raises VerifyError where a call is not of a function of the module, or does not fit it."""
    functions = {function.symbol: function for function in module.ops}
    for op in (inner for function in module.ops for inner in _calls(function, INVOKE)):
        callee = functions.get(callee_of(op))
        if callee is None or not is_called(callee):
            raise VerifyError(f"calls @{callee_of(op)}, which is no function that is called", op)
        end = callee.body.terminator.operands
        _verify_fit(op, op.operands, callee.body.args)
        _verify_fit(op, op.results, end)


def _verify_fit(op: Op, here: tuple[Value, ...] | list[Value], there: tuple[Value, ...] | list[Value]) -> None:
    dims = call_dims(op)
    expected = [_at(value, dims) for value in there]
    found = [value.type for value in here]
    if expected != found:
        raise VerifyError(f"has {', '.join(map(str, found))} for {', '.join(map(str, expected))}", op)


def _at(value: Value, dims: dict[str, Dim]) -> TensorType:
    ty = value.type
    assert isinstance(ty, TensorType)
    return TensorType(tuple(dim.substitute(dims) for dim in ty.dims), ty.dtype, ty.policy)


def _verify_call(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(all(isinstance(v.type, TensorType) for v in values), "works on tensors", op)
    require(isinstance(op.attrs.get("callee"), str), "needs a callee", op)
    require(isinstance(op.attrs.get("dims"), tuple), "needs the callee's sizes", op)


define_op(INVOKE, pure=True, verify=_verify_call)  # one with a place in the order of effects does more
