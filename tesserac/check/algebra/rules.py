"""The names and signs of the operator algebra, and what each does.

Enters: a name of the table or a sign with an operator beside it. Leaves: the rule's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.check.algebra import constructors, more_constructors, operations, questions, spectra
from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.elements import number_dtype
from tesserac.check.algebra.flags import FLAGS, flags_of, is_real
from tesserac.check.algebra.kinds import Singular, Spectral
from tesserac.check.algebra.operands import as_kind, note_operands, refuse, refuse_operand
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.check.names.foreign_names import FOREIGN_PARAMETERS
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205
from tesserac.diag.codes.operators import E0802
from tesserac.ops.compare import BitNot
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    ErrorType,
    FloatType,
    IntType,
    NoneType,
    OperatorType,
    StrType,
    TupleType,
)

_MINUS_ONE = Dim.const(-1)
Rule = Callable[[Body, Callee, dict[str, typed.Expr]], typed.Expr]


def _slots(text: str) -> tuple[Slot, ...]:
    """`a b? *c`: b may be left out, c too, and is given by name."""
    names = text.split()
    return tuple(Slot(name.strip("?*"), not ("?" in name or "*" in name), name.startswith("*")) for name in names)


RULES: dict[str, tuple[tuple[Slot, ...], Rule]] = {
    "eye": (_slots("size *dtype"), constructors.eye),
    "zero": (_slots("domain codomain? *dtype"), constructors.zero),
    "dense": (
        _slots("matrix *unitary *self_adjoint *psd *normal *diagonal *lower *upper *triangular"),
        constructors.dense,
    ),
    "diag": (_slots("entries"), constructors.diag),
    "projector": (_slots("basis"), constructors.projector),
    "fft": (_slots("size? *dtype"), constructors.fft),
    "ifft": (_slots("size? *dtype"), constructors.ifft),
    "conv1d": (_slots("taps size?"), constructors.conv1d),
    "low_rank": (_slots("left right"), constructors.low_rank),
    "block_sparse": (_slots("blocks rows columns domain codomain?"), constructors.block_sparse),
    "implicit": (_slots("forward backward domain codomain?"), constructors.implicit),
    "kronecker": (_slots("left right"), constructors.tensor),
    "tensor": (_slots("left right"), constructors.tensor),
    "kron": (_slots("left right"), constructors.tensor),
    "direct_sum": (_slots("left right"), constructors.sum_of_spaces),
    "kronecker_sum": (_slots("left right"), constructors.kronecker_sum),
    "permutation": (_slots("order *dtype"), more_constructors.permutation),
    "triangular": (_slots("matrix *lower"), more_constructors.triangular),
    "banded": (_slots("bands lower upper"), more_constructors.banded),
    "toeplitz": (_slots("column row?"), more_constructors.toeplitz),
    "circulant": (_slots("column"), constructors.conv1d_of_column),
    "block": (_slots("rows"), more_constructors.block),
    "jacobian": (_slots("function point"), more_constructors.jacobian),
    "coo": (_slots("rows columns values domain codomain?"), more_constructors.coo),
    "csr": (_slots("starts columns values domain"), more_constructors.csr),
    "apply": (_slots("operator x *axis"), operations.apply),
    "transpose": (_slots("operator"), operations.transposed),
    "compose": (_slots("left right"), operations.compose),
    "adjoint": (_slots("operator"), operations.adjoint),
    "conj": (_slots("operator"), operations.conjugated),
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
    "to_dense": (_slots("operator"), questions.to_dense),
    "inverse": (_slots("operator"), questions.inv),
    "inv": (_slots("operator"), questions.inv),
    "solve": (_slots("operator x"), questions.solve),
    "trace": (_slots("operator"), questions.trace),
    "diagonal": (_slots("operator"), questions.diagonal),
    "det": (_slots("operator"), questions.det),
    "slogdet": (_slots("operator"), questions.slogdet),
    "logdet": (_slots("operator"), questions.logdet),
    "norm": (_slots("operator"), questions.norm),
    "cond": (_slots("operator"), questions.cond),
    "is_unitary": (_slots("operator"), questions.is_unitary),
    "spectral_radius": (_slots("operator"), questions.spectral_radius),
    **{name: (_slots("operator"), spectra.function_of) for name in spectra.FUNCTIONS},
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
    if name == "tensor" and _are_numbers(args):
        draft = body.sink.error(E0205, at=callee.at, problem="`tensor` takes two operators, and gives their product")
        draft.replace("a tensor of what is written is `array`", callee.at, "array")
        return body.error(callee.span)
    given = sort_arguments(body, callee, args, slots)
    if given is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    return rule(body, callee, given)


def _are_numbers(args: Sequence[Arg]) -> bool:
    """Whether `tensor` is called as PyTorch's is: with a number or a list first, and no other operand."""
    operands = [arg for arg in args if arg.name not in FOREIGN_PARAMETERS]
    return len(operands) == 1 and isinstance(operands[0].value.type, TupleType | IntType | FloatType | BoolType)


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
    from_right = not isinstance(left.type, OperatorType)
    if node.op == "@" and from_right:
        return operations.apply_right(body, callee, {"x": left, "operator": right})
    if node.op not in _SIGNS or (node.op in ("/", "**") and from_right):
        draft = body.sink.error(E0802, at=node.op_span, problem=f"`{node.op}` does not take an operator on this side")
        note_operands(body, draft, right if isinstance(right.type, OperatorType) else left)
        return body.error(node.span)
    (first, second), rule = _SIGNS[node.op]
    return rule(body, callee, {first: left, second: right})


def negative(body: Body, node: ast.UnaryOp, operand: typed.Expr) -> typed.Expr:
    callee = Callee(node.op, node.op_span, node.span)
    if node.op != "-":
        return refuse_operand(body, callee, node.op_span, f"`{node.op}` does not take an operator")
    minus_one = typed.Static(IntType(_MINUS_ONE), node.op_span)
    return operations.scale(body, callee, {"operator": operand, "factor": minus_one})


def compare(body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, callee: Callee) -> typed.Expr:
    if link.op not in ("==", "!="):
        problem = f"operators are equal or not; `{link.op}` does not compare them"
        return refuse_operand(body, callee, link.op_span, problem)
    same = questions.equal(body, left, right, callee)
    if link.op == "==" or isinstance(same.type, ErrorType):
        return same
    if isinstance(same.type, BoolType):
        return typed.Static(BoolType(not same.type.value), callee.span)
    return apply_operator(body, BitNot(), [same], link.op_span, callee.span)


_FORM = ("U", "S", "V")
ATTRIBUTES = ("H", "T", "shape", "dtype", "flags", "representation", *_FORM, *FLAGS)


def attribute(body: Body, value: typed.Expr, node: ast.Attribute) -> typed.Expr:
    """`A.H`, shape and dtype of its matrix, how it is held, a part of a spectral form, or a flag: one of ATTRIBUTES."""
    assert isinstance(value.type, OperatorType)
    pool = Pool(body)
    tree = as_kind(pool.take(value))
    callee = Callee(f".{node.name}", node.name_span, node.span)
    match node.name:
        case "H":
            return operations.adjoint(body, callee, {"operator": value})
        case "T":
            return operations.transposed(body, callee, {"operator": value})
        case "shape":
            return _shape(body, value.type, callee)
        case "dtype":
            return _dtype(pool, tree, callee)
        case "flags":
            names = tuple(StrType(flag) for flag in flags_of(pool, tree))
            return typed.Static(TupleType(names), node.span)
        case "representation":
            return typed.Static(StrType(tree.representation()), node.span)
    if node.name in _FORM:
        return _part_of_form(pool, tree, callee)
    return questions.flag(Application(pool, callee), tree, node.name)


def _shape(body: Body, type_: OperatorType, callee: Callee) -> typed.Expr:
    known = tuple(IntType(size) for size in reversed(type_.shape) if size is not None)
    if len(known) == 2:
        return typed.Static(TupleType(known), callee.span)
    return refuse(body, callee, callee.span, "this operator is of any size")


def _dtype(pool: Pool, tree: Kind, callee: Callee) -> typed.Expr:
    """None of an operator that takes the numbers it meets: it has none of its own."""
    found = number_dtype(pool, tree, not is_real(pool, tree))
    return typed.Static(NoneType() if found is None else DTypeType(found), callee.span)


def _part_of_form(pool: Pool, tree: Kind, callee: Callee) -> typed.Expr:
    """`.U`, `.S` or `.V` of a spectral form, which is U diag(S) V.H."""
    if not isinstance(tree, Spectral | Singular):
        problem = f"`{callee.name}` is a part of a spectral form; this operator is none"
        return refuse(pool.body, callee, callee.at, problem, "`spectral(A)` gives one")
    return pool.values[spectra.factors_of(tree)[_FORM.index(callee.name.removeprefix("."))].index]
