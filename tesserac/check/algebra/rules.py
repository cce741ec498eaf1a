"""The names and signs of the operator algebra, and what each does.

Enters: a name of the table or a sign with an operator beside it. Leaves: the rule's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.check.algebra import constructors, operations, spectra
from tesserac.check.algebra.operands import as_kind, note_operand, refuse
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body
from tesserac.diag.codes.operators import E0802
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import BoolType, ErrorType, IntType, OperatorType, TupleType

_MINUS_ONE = Dim.const(-1)
Rule = Callable[[Body, Callee, dict[str, typed.Expr]], typed.Expr]


def _slots(text: str) -> tuple[Slot, ...]:
    """`a b? *c`: b may be left out, c too, and is given by name."""
    names = text.split()
    return tuple(Slot(name.strip("?*"), not ("?" in name or "*" in name), name.startswith("*")) for name in names)


RULES: dict[str, tuple[tuple[Slot, ...], Rule]] = {
    "eye": (_slots("size"), constructors.eye),
    "zero": (_slots("domain codomain?"), constructors.zero),
    "dense": (_slots("matrix *unitary *self_adjoint"), constructors.dense),
    "diag": (_slots("entries"), constructors.diag),
    "projector": (_slots("basis"), constructors.projector),
    "fft": (_slots("size?"), constructors.fft),
    "ifft": (_slots("size?"), constructors.ifft),
    "conv1d": (_slots("taps size?"), constructors.conv1d),
    "low_rank": (_slots("left right"), constructors.low_rank),
    "block_sparse": (_slots("blocks rows columns domain codomain?"), constructors.block_sparse),
    "implicit": (_slots("forward backward domain codomain?"), constructors.implicit),
    "kronecker": (_slots("left right"), constructors.tensor),
    "tensor": (_slots("left right"), constructors.tensor),
    "direct_sum": (_slots("left right"), constructors.sum_of_spaces),
    "apply": (_slots("operator x"), operations.apply),
    "compose": (_slots("left right"), operations.compose),
    "adjoint": (_slots("operator"), operations.adjoint),
    "plus": (_slots("left right"), operations.plus),
    "scale": (_slots("operator factor"), operations.scale),
    "power": (_slots("operator n"), operations.power),
    "commutator": (_slots("left right"), operations.commutator),
    "sym": (_slots("operator"), operations.sym),
    "skew": (_slots("operator"), operations.skew),
    "resolvent": (_slots("operator z"), operations.resolvent),
    "expm": (_slots("operator"), spectra.expm),
    "spectral": (_slots("operator"), spectra.spectral),
    "truncate": (_slots("form k"), spectra.truncate),
    "reconstruct": (_slots("form"), spectra.reconstruct),
    "pseudoinverse": (_slots("form"), spectra.pseudoinverse),
    "norm": (_slots("operator"), spectra.norm),
    "is_unitary": (_slots("operator"), spectra.is_unitary),
    "spectral_radius": (_slots("operator"), spectra.spectral_radius),
}

_SIGNS: dict[str, tuple[tuple[str, str], Rule]] = {
    "@": (("operator", "x"), operations.apply),
    "∘": (("left", "right"), operations.compose),
    "+": (("left", "right"), operations.plus),
    "-": (("left", "right"), operations.minus),
    "*": (("operator", "factor"), operations.scale),
    "/": (("operator", "factor"), operations.divide),
    "**": (("operator", "n"), operations.power),
}


def call_rule(body: Body, name: str, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`compose(A, B)`, `op.eye(N)`."""
    slots, rule = RULES[name]
    given = sort_arguments(body, callee, args, slots)
    if given is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    return rule(body, callee, given)


def takes(name: str, args: Sequence[Arg]) -> bool:
    """Whether a function of tensors that operators have too is called with one: `norm(A)`, `expm(A)`."""
    return name in RULES and any(isinstance(arg.value.type, OperatorType) for arg in args)


def has_operator(*values: typed.Expr) -> bool:
    return any(isinstance(value.type, OperatorType) for value in values)


def binary(body: Body, node: ast.BinaryOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    """A sign between two values of which one is an operator."""
    callee = Callee(node.op, node.op_span, node.span)
    if isinstance(left.type, ErrorType) or isinstance(right.type, ErrorType):
        return body.error(node.span)
    if node.op == "*" and not isinstance(left.type, OperatorType):
        left, right = right, left
    from_right = node.op in ("@", "/", "**") and not isinstance(left.type, OperatorType)
    if node.op not in _SIGNS or from_right:
        draft = body.sink.error(E0802, at=node.op_span, problem=f"`{node.op}` does not take an operator on this side")
        note_operand(body, draft, right if isinstance(right.type, OperatorType) else left)
        if node.op == "@":
            draft.remark("an operator applies to what stands after it; `adjoint(A) @ x` is the conjugate of `x @ A`")
        return body.error(node.span)
    (first, second), rule = _SIGNS[node.op]
    return rule(body, callee, {first: left, second: right})


def negative(body: Body, node: ast.UnaryOp, operand: typed.Expr) -> typed.Expr:
    callee = Callee(node.op, node.op_span, node.span)
    if node.op != "-":
        return refuse(body, callee, node.op_span, f"`{node.op}` does not take an operator")
    minus_one = typed.Static(IntType(_MINUS_ONE), node.op_span)
    return operations.scale(body, callee, {"operator": operand, "factor": minus_one})


def compare(body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, callee: Callee) -> typed.Expr:
    if link.op not in ("==", "!="):
        return refuse(body, callee, link.op_span, f"operators are equal or not; `{link.op}` does not compare them")
    same = operations.equal(body, left, right, callee)
    if link.op == "!=" and isinstance(same.type, BoolType):
        return typed.Static(BoolType(not same.type.value), callee.span)
    return same


ATTRIBUTES = ("H", "shape", "unitary", "self_adjoint", "normal")


def attribute(body: Body, value: typed.Expr, node: ast.Attribute) -> typed.Expr:
    """`A.H`, the shape of its matrix, or a flag: one of ATTRIBUTES."""
    assert isinstance(value.type, OperatorType)
    pool = Pool(body)
    tree = as_kind(pool.take(value))
    callee = Callee(f".{node.name}", node.name_span, node.span)
    match node.name:
        case "H":
            return operations.adjoint(body, callee, {"operator": value})
        case "shape":
            sizes = reversed(value.type.shape)
            known = tuple(IntType(size) for size in sizes if size is not None)
            if len(known) == 2:
                return typed.Static(TupleType(known), node.span)
            return refuse(body, callee, node.span, "this operator is of any size")
        case "unitary":
            return typed.Static(BoolType(tree.is_unitary(pool)), node.span)
        case "self_adjoint":
            return typed.Static(BoolType(operations.is_self_adjoint(pool, tree)), node.span)
    return typed.Static(BoolType(operations.is_normal(pool, tree)), node.span)
