"""Applies an operator expression: to tensors, or to the identity, which is its dense form.

Enters: a tree, the values it is made of, and what it is applied to. Leaves: calls of the library's functions that apply
each kind, `stdlib/operators/apply.tess`. A real tensor that meets a complex one becomes complex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tessera.toolchain import materialize_limit
from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.carrying import ends_of
from tesserac.check.algebra.combined import Eye, Zero
from tesserac.check.algebra.elements import SAID, element
from tesserac.check.algebra.flags import flags_of, is_diagonal
from tesserac.check.algebra.kinds import Dense
from tesserac.check.algebra.measures import as_grid, as_ring, as_update, diagonal
from tesserac.check.algebra.operands import refuse_matrix
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.ranks import looked_at
from tesserac.check.calls.function_values import call_closure
from tesserac.check.calls.functions import call_function
from tesserac.check.model import typed
from tesserac.check.names.refs import FunctionRef
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.values.scalars import to_float
from tesserac.ops.convert import Cast
from tesserac.ops.create import Eye as EyeTensor
from tesserac.ops.elementwise import Div, Mul
from tesserac.ops.held import FLAGS as HELD_FLAGS
from tesserac.ops.held import Held
from tesserac.types.algebra import Leaf, Tree, outline
from tesserac.types.dims import Dim
from tesserac.types.dtype import C64, C128, F32, F64, DType
from tesserac.types.ty import ErrorType, IntType, TensorType

LIBRARY, APPLY = "stdlib.operators.", "apply"
_ELIMINATION, _POWER = "stdlib.linalg.elimination", "stdlib.linalg.power"
_OUTSIDE = {
    **dict.fromkeys(("solve", "slogdet", "det", "inv"), _ELIMINATION),
    **dict.fromkeys(("_solve_update", "_slogdet_update", "_det_update"), _ELIMINATION),
    "_promised_positive": "stdlib.linalg.with_structure",
    "expm": _POWER,
}
"""Functions of matrices that the compiler may replace by those for the structure of their matrix."""
_COMPLEX: dict[DType, DType] = {F32: C64, F64: C128}


@dataclass(frozen=True, eq=False)
class Application:
    """One use of operators in the program: what `Kind.apply` works with."""

    pool: Pool
    callee: Callee
    is_matrix: bool = False
    """Whether a matrix is made of the operator, whose structure is read off the tensors."""
    of: str = ""
    """What the operator is made of that the program asks, after the laws of operators."""

    @property
    def span(self) -> Span:
        return self.callee.span

    def value(self, leaf: Leaf) -> typed.Expr:
        return self.pool.values[leaf.index]

    def operator(self, tree: Tree) -> typed.Expr:
        return self.pool.value(tree, self.span)

    def call(self, function: str, *args: typed.Expr) -> typed.Expr:
        """A function of the library on these arguments."""
        if any(isinstance(arg.type, ErrorType) for arg in args):
            return self.pool.body.error(self.span)
        given = [Arg(None, self.span, arg) for arg in _met(self.pool.body, args, self.callee)]
        file, _, name = function.rpartition(".")
        ref = FunctionRef(_OUTSIDE.get(function, LIBRARY + (file or APPLY)), name)
        made = call_function(self.pool.body, ref, given, self.callee)
        told = self.callee.name.removeprefix(".")
        return replace(made, told=told, of=self.of) if isinstance(made, typed.Call) else made

    def function(self, function: typed.Expr, x: typed.Expr) -> typed.Expr:
        """A function of the program, called where it is known: the library does not see it."""
        return call_closure(self.pool.body, function, [Arg(None, self.span, x)], self.callee)

    def size(self, dim: Dim) -> typed.Expr:
        return typed.Static(IntType(dim), self.span)

    def scale(self, factor: typed.Expr, y: typed.Expr, divide: bool) -> typed.Expr:
        """A number times a tensor."""
        y, factor = _met(self.pool.body, [y, to_float(factor)], self.callee)
        op = Div() if divide else Mul()
        return apply_operator(self.pool.body, op, [y, factor], self.callee.at, self.span)

    def applied(self, tree: Kind, x: typed.Expr) -> typed.Expr:
        """An operator, or a part of one, on a vector or the columns of a matrix. Where no matrix shows what it is, both
        ends of its application say so."""
        ends = None if self.is_matrix or isinstance(x.type, ErrorType) else ends_of(self.pool, tree)
        if ends is None:
            return tree.apply(self, x)
        y = tree.apply(self, typed.Apply(x.type, self.span, ends.into, (x, *ends.parts)))
        return y if isinstance(y.type, ErrorType) else typed.Apply(y.type, self.span, ends.out, (y, *ends.parts))

    def held(self, matrix: typed.Expr, tree: Kind, *flags: str) -> typed.Expr:
        """A matrix of an operator with what is known of it: laws use that where its tree is not seen any more."""
        made = Held(outline(tree), tuple(flag for flag in HELD_FLAGS if flag in flags))
        return apply_operator(self.pool.body, made, [matrix], self.callee.at, self.span) if flags else matrix

    def dense(self, tree: Kind) -> typed.Expr:
        """The operator as a matrix, for a function that needs all of it."""
        if isinstance(tree, Dense):
            return tree.matrix_of(self)
        if refuse_matrix(self.pool, tree, self.callee):
            return self.pool.body.error(self.span)
        limit = typed.Static(IntType(Dim.const(materialize_limit())), self.span)
        matrix = self.call("measures._bounded", tree.matrix_of(self), limit)
        return self.held(matrix, tree, *(flag for flag in flags_of(self.pool, tree) if flag in HELD_FLAGS))

    def applied_to_identity(self, tree: Kind) -> typed.Expr:
        size = tree.shape(self.pool.types)[0]
        assert size is not None, "an operator without a size has no dense form"
        said = SAID[tree.dtype] if isinstance(tree, Eye | Zero) and tree.dtype else None
        identity = EyeTensor(size, dtype=said or element(self.pool, tree))
        x = apply_operator(self.pool.body, identity, [], self.callee.at, self.span)
        return tree.apply(replace(self, is_matrix=True), x)

    def solve_sum(self, tree: Kind, y: typed.Expr) -> typed.Expr:
        """A system of a sum: of a diagonal, by dividing; of one and a product, by the size of that; of circular
        convolutions, by dividing transforms; of a Kronecker product or sum and a number, by the eigenvectors of both
        factors."""
        if is_diagonal(self.pool, tree):
            return self.call("_diag_solve", diagonal(self, tree), y)
        ring = as_ring(self, tree)
        if ring is not None:
            return self.call("structured._ring_solved", ring, y)
        grid = as_grid(self, tree)
        if grid is not None:
            a, b, c, is_sum = grid
            return self.call("grids._solve_grid", a, b, c, y, is_sum)
        update = as_update(self, tree)
        return self.solve_matrix(tree, y) if update is None else self.call("_solve_update", *update, y)

    def solve_matrix(self, tree: Kind, y: typed.Expr) -> typed.Expr:
        """A system of an operator by its matrix, where its rank can be full."""
        return self.solve(self.dense(tree), looked_at(self, tree, y))

    def solve(self, matrix: typed.Expr, y: typed.Expr) -> typed.Expr:
        """A system of a matrix; the compiler sees what that is made of."""
        return self.call("solve", *_met(self.pool.body, [matrix, y], self.callee))


def _met(body: Body, args: Sequence[typed.Expr], callee: Callee) -> list[typed.Expr]:
    """The arguments, all complex if one is."""
    if not any(isinstance(arg.type, TensorType) and arg.type.dtype.is_complex for arg in args):
        return list(args)
    return [_as_complex(body, arg, callee) for arg in args]


def _as_complex(body: Body, arg: typed.Expr, callee: Callee) -> typed.Expr:
    if not isinstance(arg.type, TensorType) or arg.type.dtype not in _COMPLEX:
        return arg
    return apply_operator(body, Cast(_COMPLEX[arg.type.dtype]), [arg], callee.at, callee.span)
