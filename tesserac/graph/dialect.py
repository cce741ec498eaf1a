"""Graph IR: operators under their own names, calls, and structured control flow.

    graph.func @scale {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %two = graph.full() {dtype = dtype<f32>, policy = policy<>, shape = [], value = 2.0} : tensor<[], f32>
        %y = graph.mul(%x, %two) : tensor<[N], f32>
        graph.return(%y)
    }

graph.<operator>(x...) {static attributes} : tensor
    A tier-1 operator of `ops/`; the attributes are its fields, and `numerics` where the program gives it a mode, of
    which `passes/relax.py` and `passes/generalize.py` make use. Its type is checked by its own signature.
graph.size() {dim} : tensor<[], dtype>
    A size as a value: `float(D)`.
graph.call(x...) {callee, dims, io} : tensor...
    A function of this module. `dims` pairs each of its symbols with what it is here, so that inlining substitutes.
graph.custom(x...) {callee, dims, io, jvp, vjp, reads, called} : tensor...
    The same of a function that has derivatives of its own: `jvp` and `vjp` are their symbols and sizes, where there are
    any; a kernel may have none. `reads` are how many of the last operands are params of the module, which rules are not
    given. It stays one until all derivatives are taken, see `graph/autodiff/custom.py`. `called` says that the function
    stays one too: its rules are made where they are asked for, and in the end it is a `form.call` (`ir/calls.py`).
graph.kernel(x...) {callee, dims} : tensor...
    A call of a kernel that no derivative has reached: `callee` is its meaning, and has the attribute `program`, which
    says what it does block by block. `passes/place_kernels.py` makes it one of the two.
graph.func @name {params, guards, entry, effects, expected, program, alternatives} {
    ^(tensor...): ... graph.return(tensor...) }
    `entry` says that it may be called from outside; `inline` leaves those, and what is `called`. `effects`, where it
    has some, are what it and its callees do besides computing. `expected` are sizes that `@sizes` tells to expect:
    they go where it is inlined, and end with the Graph. `alternatives` are kernels that implement it, of which a call
    may take one: `passes/choose_kernels.py`.
`form.assert`, `form.print` and calls of functions that do such things have a place in their order, `io`.
Control flow is `form.loop`, `form.while` and `form.cond`; a loop's attribute `counter` is the symbol that stands for
its count in the dims of its body.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.graph.uniformity import verify_uniformity
from tesserac.ir import effects as _effects  # noqa: F401  (assert and print)
from tesserac.ir import index as _index  # noqa: F401  (bounds of loops are indices)
from tesserac.ir import interleaved as _interleaved  # noqa: F401  (complex arguments and results)
from tesserac.ir import table as _table  # noqa: F401  (tensors known while compiling)
from tesserac.ir.attributes import register_attribute
from tesserac.ir.calls import is_called
from tesserac.ir.core import OPDEFS, Attr, Op, Value, define_op, tuple_of
from tesserac.ir.forms import Guard, tensor_type
from tesserac.ir.kernels import Cut
from tesserac.ir.ordering import ORDERED, verify_effects
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.ops.registry import OPERATORS, Operator, static_fields
from tesserac.ops.unify import Mismatch
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy

PREFIX = "graph."
CALL, CUSTOM, KERNEL_CALL = "graph.call", "graph.custom", "graph.kernel"
FORWARD_RULE, REVERSE_RULE = "jvp", "vjp"
"""The attributes of a custom call that hold the rules of its function."""
READS = "reads"
"""How many of the last operands of a custom call are no arguments, but params of the module."""
FORMS = "forms"
"""Of a call whose function has others that compute it for matrices of some structure: that, their symbols and sizes."""
AS = "as"
"""Of a call that a program made as another function: what it asserts is said of that one."""
NUMERICS = "numerics"
"""The attribute that `with numerics(fast):` gives to operators and calls inside."""
DIGEST = "digest"
"""The attribute of a kernel's function that tells its program from all others, whatever it is called."""
SCHEDULE = "schedule"
"""What the program says of how an operator runs, or the kernels of a call: settings with their values."""
PROGRAM = "program"
"""The attribute of a kernel's function that says what it does block by block."""
ALTERNATIVES = "alternatives"
"""The attribute of a function that kernels implement."""
PATTERN = "pattern"
"""Of a function: a value that is computed as its body says may be computed by its alternatives. It is how a program
writes what that computes."""
EXPECTED = "expected"
"""Of a function: the sizes that its program tells to expect, by their names. They decide between orders and forms of
linear algebra of which none is always the cheaper one."""
LAW = "law"
"""Of a pattern that the library has: it is looked for before derivatives are taken."""
COLUMNS = "columns"
"""Of a function that computes each column of the matrices beside its first argument alone."""
MEANS = "means"
"""The same of a function that was found in a program."""
MEANT = "meant"
"""Of a call that is computed as the body of its function says: of a kernel that is differentiated, since the derivative
needs that anyway; of what a kernel is compared with."""
REPLAY = "replay"
"""Of an operator that computes once more what is not kept; equal numbers may be merged."""


_BESIDE = (MEANT, NUMERICS, REPLAY, SCHEDULE, *ORDERED)
"""Attributes of operations that are no fields of their operators."""


@dataclass(frozen=True)
class Program:
    """What a kernel does in one program: the function `symbol`, over blocks. See `form.kernel`; `leading` are the dims
    whose indices are a program each, `fixed` the sizes of the function that are known, `tuned` the settings of the
    schedule that tuning chooses, each with the values of its space, `pinned` the sizes of blocks that the result
    depends on."""

    symbol: str
    leading: tuple[Dim, ...]
    blocks: tuple[Cut, ...]
    own: tuple[Dim, ...]
    numbers: tuple[str, ...]
    fixed: tuple[tuple[str, Dim], ...]
    schedule: tuple[tuple[str, int | str], ...]
    tuned: tuple[tuple[str, tuple[int | str, ...]], ...]
    pinned: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Alternative:
    """A kernel that implements a function: `symbol` is a function of the same arguments that calls it, empty where it
    does not take them, which `why` says. Only for a `target`, if that is said, and where `guards` hold. A kernel that
    is a `rewrite` has other bits, so that no target decides whether it is taken."""

    kernel: str
    symbol: str
    target: str
    rewrite: bool
    guards: tuple[Guard, ...]
    why: str


register_attribute("program", Program)
register_attribute("alternative", Alternative)


def alternatives_of(function: Op) -> tuple[Alternative, ...]:
    """The kernels that implement a function."""
    found = function.attrs.get(ALTERNATIVES, ())
    assert isinstance(found, tuple)
    return tuple(way for way in found if isinstance(way, Alternative))


def program_of(function: Op) -> Program | None:
    """What a function does block by block, if it is a kernel."""
    program = function.attrs.get(PROGRAM)
    assert program is None or isinstance(program, Program)
    return program


def runs(function: Op) -> bool:
    """Whether a function is compiled as such: others are written out where they are called."""
    return function.attrs["entry"] is True or is_called(function)


def is_operator(op: Op) -> bool:
    """Whether this is a tier-1 operator under its name."""
    return op.name.startswith(PREFIX) and op.name.removeprefix(PREFIX) in OPERATORS


def set_schedule(op: Op, settings: Attr | None) -> None:
    """Calls of a function have the schedule of its call, where they have none of their own."""
    for inner in op.walk() if settings is not None else ():
        if inner.name in (CALL, CUSTOM, KERNEL_CALL):
            inner.attrs.setdefault(SCHEDULE, settings)


def set_meant(op: Op) -> None:
    """Operators of a function whose call is computed as its body says are so too."""
    for inner in op.walk():
        if is_operator(inner):
            inner.attrs[MEANT] = True


def set_numerics(op: Op, mode: Attr | None) -> None:
    """Operators of a function have the mode of its call, if that has one and they have none of their own."""
    for inner in op.walk() if mode is not None else ():
        if is_operator(inner) or inner.name in (CUSTOM, KERNEL_CALL):
            inner.attrs.setdefault(NUMERICS, mode)


def operator_of(op: Op) -> Operator:
    """The operator that an operation applies, with its static attributes."""
    return applied(op.name, op.attrs)


def applied(name: str, attrs: Mapping[str, Attr]) -> Operator:
    """The operator that an operation of this name and these attributes applies."""
    static = {attr: value for attr, value in attrs.items() if attr not in _BESIDE}
    return OPERATORS[name.removeprefix(PREFIX)](**static)


def operator_attrs(operator: Operator) -> dict[str, Attr]:
    """The attributes of the operation that applies it."""
    return {name: _as_attr(value) for name, value in static_fields(operator).items()}


def _as_attr(value: object) -> Attr:
    assert isinstance(value, tuple | bool | int | float | str | None | Dim | DType | Policy), (
        f"{value!r} is no attribute"
    )
    return tuple(map(_as_attr, value)) if isinstance(value, tuple) else value


def expected_sizes(function: Op) -> dict[str, int]:
    """The sizes that a function is told to expect."""
    return {str(name): int(size) for name, size in tuple_of(function.attrs.get(EXPECTED, ()), tuple)}


def forms_of(op: Op) -> dict[str, tuple[Attr, ...]]:
    """The forms that a call may take, by structure."""
    rows = tuple_of(op.attrs.get(FORMS, ()), tuple)
    return {str(row[0]): row for row in rows}


def expect_sizes(function: Op, callee: Op, dims: Mapping[str, Dim]) -> None:
    """What a callee expects, its caller does, unless it says so itself: it knows more of its sizes."""
    own = expected_sizes(function)
    found = ((dims.get(name, Dim.sym(name)).symbol, size) for name, size in expected_sizes(callee).items())
    merged = {name: size for name, size in found if name is not None} | own
    if merged:
        function.attrs[EXPECTED] = tuple(merged.items())


def own_arguments(op: Op) -> tuple[Value, ...]:
    """The operands of a custom call that its rules are given."""
    reads = op.attrs.get(READS, 0)
    assert isinstance(reads, int)
    return op.operands[: len(op.operands) - reads]


_VERIFIED: dict[tuple[str | int, ...], tuple[object, ...]] = {}
"""Operations that were right: their names, and which objects their attributes and types are. With these objects, so
that nothing else comes to be at their addresses."""
_MOST = 1 << 15


def _verify_operator(op: Op) -> None:
    """Most stay as they are from pass to pass, and clones have the same attributes and types."""
    parts: tuple[object, ...] = (*op.attrs.values(), *[value.type for value in op.operands], op.result.type)
    key: tuple[str | int, ...] = (op.name, *op.attrs, *map(id, parts))
    if key in _VERIFIED:
        return
    _infer_again(op)
    if len(_VERIFIED) >= _MOST:
        _VERIFIED.clear()
    _VERIFIED[key] = parts


def _infer_again(op: Op) -> None:
    attrs = tuple((name, type(value), value) for name, value in op.attrs.items())
    try:
        inferred = _inferred(op.name, attrs, tuple(tensor_type(v) for v in op.operands))
    except (Mismatch, TypeError) as error:
        require(False, "does not fit its operands: {!r}", op, error)
        return
    require(op.result.type == inferred, "gives {}", op, inferred)


@lru_cache(maxsize=8192)
def _inferred(name: str, attrs: tuple[tuple[str, type, Attr], ...], operands: tuple[TensorType, ...]) -> TensorType:
    """What an operation gives; types of attributes are there since `1 == True`."""
    return applied(name, {attr: value for attr, _, value in attrs}).infer(operands, lambda left, right: True)


def _verify_func(op: Op) -> None:
    names, guards = op.attrs.get("params"), op.attrs.get("guards")
    require(isinstance(names, tuple) and len(names) == len(op.body.args), "needs one name per argument", op)
    require(isinstance(guards, tuple) and all(isinstance(g, Guard) for g in guards), "needs guards", op)
    require(isinstance(op.attrs.get("entry"), bool), "says whether it is an entry", op)
    require(op.body.terminator.name == "graph.return", "ends in graph.return", op)
    _verify_tensors(op)
    verify_effects(op)
    verify_uniformity(op)


def _verify_tensors(op: Op) -> None:
    values = (*op.operands, *op.results, *(a for r in op.regions for a in r.block.args))
    require(all(isinstance(v.type, TensorType) for v in values), "works on tensors", op)


def _verify_size(op: Op) -> None:
    require(isinstance(op.attrs.get("dim"), Dim) and not op.operands, "needs a dim and nothing else", op)
    require(tensor_type(op.result).rank == 0, "gives one number", op)


def _verify_call(op: Op) -> None:
    _verify_tensors(op)
    require(isinstance(op.attrs.get("callee"), str), "needs a callee", op)
    require(isinstance(op.attrs.get("dims"), tuple), "needs the callee's sizes", op)


for _name, _operator in OPERATORS.items():
    if PREFIX + _name not in OPDEFS:
        define_op(PREFIX + _name, pure=True, verify=_verify_operator, effect=_operator.effect)

define_op("graph.func", pure=False, verify=_verify_func)
define_op("graph.return", pure=False, verify=_verify_tensors, terminator=True)
define_op("graph.size", pure=True, verify=_verify_size)
define_op(CUSTOM, pure=True, verify=_verify_call)  # one with a place in the order of effects does more
define_op(KERNEL_CALL, pure=True, verify=_verify_call)
define_op(CALL, pure=False, verify=_verify_call)  # what the callee does besides is known once it is inlined
