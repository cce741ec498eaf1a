"""All derivatives of a function at once: `jacfwd(f)`, `jacrev(f)`, `hessian(f)`, `hvp(f)`.

Enters: a function, and the arguments of a call. Leaves: a derivative mapped over the rows of an identity: one batched
pass, without a loop. Of a tensor by a tensor it has the dims of the value, then those of the argument; values made of
tensors make it a value like them, the result outside and the argument inside. With complex numbers the column of an
element is the tangent along it, and the row of an element the cotangent of it, without a conjugate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body, is_static
from tesserac.check.transforms.derivatives import HOLOMORPHIC, Call, open_call, seed_of
from tesserac.check.transforms.wrt import read_wrt
from tesserac.check.values.generic_items import lengths_in
from tesserac.check.values.opened import Opened
from tesserac.check.values.tangents import is_smooth, tangent_type
from tesserac.check.values.tuples import item_of, make_tuple, make_value, tuple_items
from tesserac.diag.codes.differentiation import E0725
from tesserac.diag.codes.names import E0205
from tesserac.ops.create import Eye, Zeros
from tesserac.ops.shape import Reshape
from tesserac.types.dims import Dim, product
from tesserac.types.ty import Aggregate, BoolType, TensorType, TransformType, TupleType, Type, parts, with_parts


def call_jacobian(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """A call of what `jacfwd`, `jacrev`, `hessian` or `hvp` made."""
    type_ = value.type
    assert isinstance(type_, TransformType)
    function, *_ = tuple_items(value, callee.span)
    if type_.transform == "hvp":
        return _hessian_product(body, type_, function, args, callee, call)
    if type_.transform == "hessian":
        function = _made("jacrev", type_, function)
    wrt = read_wrt(body, type_, args, callee)
    opened = None if wrt is None else open_call(body, function, args, callee, call)
    if wrt is None or opened is None or not _has_numbers(body, opened, wrt, type_, callee):
        return body.error(callee.span)
    types = (opened.value.type, *(args[place].value.type for place in wrt))
    if any(list(lengths_in(type_)) for type_ in types):
        return body.error(callee.span)  # a matrix for each pair of leaves: a call knows how many there are
    jacobian = _Jacobian(opened, wrt, callee.span, isinstance(type_.setting("wrt"), TupleType))
    return jacobian.in_reverse() if type_.transform == "jacrev" else jacobian.forward()


def _made(transform: str, type_: TransformType, function: typed.Expr) -> typed.Expr:
    """Another transform of the function, with the same settings."""
    return make_value(TransformType(transform, (function.type,), type_.settings), [function], function.span)


def _hessian_product(
    body: Body, type_: TransformType, function: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call
) -> typed.Expr:
    """`hvp(f)(x, ..., v)`: how the gradient by x changes along v, forward over reverse."""
    if len(args) < 2 or args[-1].name not in (None, "v"):
        problem = "what `hvp` makes takes the arguments of the function, and then a direction"
        body.sink.error(E0205, at=callee.at, problem=problem)
        return body.error(callee.span)
    *given, last = args
    wrt = read_wrt(body, type_, given, callee)
    if wrt is None or isinstance(type_.setting("wrt"), TupleType):
        if wrt is not None:
            body.sink.error(E0205, at=callee.at, problem="`hvp` is along one argument; make a struct of several")
        return body.error(callee.span)
    opened = open_call(body, _made("grad", type_, function), given, callee, call)
    seed = seed_of(body, last.value, given[wrt[0]].value.type)
    if opened is None or seed is None:
        return body.error(callee.span)
    return item_of(opened.derivative(wrt, [seed], reverse=False), 1, callee.span)


def _has_numbers(body: Body, opened: Opened, wrt: Sequence[int], type_: TransformType, callee: Callee) -> bool:
    """Whether each pair of elements has one number: `jacfwd` goes by real arguments, `jacrev` is of real results, and
    what is stated to be analytic is complex on both sides."""
    places = [place for position in wrt if (place := opened.places[position]) is not None]
    args = [leaf for place in places for leaf in _smooth_leaves(opened.args[place].type)]
    values = _smooth_leaves(opened.value.type)
    if is_holomorphic(type_):
        what, wants, by = "holomorphic=True", "is for complex arguments and results", "for"
        wrong = [leaf for leaf in (*args, *values) if not _is_complex(leaf)]
    elif type_.transform == "jacrev":
        what, wants, by = "jacrev", "is of real results", "of"
        wrong = [leaf for leaf in values if not _is_real(leaf)]
    else:
        what, wants, by = type_.transform, "goes by real arguments", "by"
        wrong = [leaf for leaf in args if not _is_real(leaf)]
    if not wrong:
        return True
    found = f"{by} {type_text(wrong[0])}"
    draft = body.sink.error(E0725, at=callee.at, transform=what, wants=wants, found=found)
    draft.fix("say `holomorphic=True` of an analytic function, or take `jvp` or `vjp`")
    return False


def is_holomorphic(type_: TransformType) -> bool:
    said = type_.setting(HOLOMORPHIC)
    return isinstance(said, BoolType) and said.value


def _is_complex(leaf: Type) -> bool:
    return isinstance(leaf, TensorType) and leaf.dtype.is_complex


def _is_real(leaf: Type) -> bool:
    return isinstance(leaf, TensorType) and not leaf.dtype.is_complex


@dataclass(frozen=True)
class _Jacobian:
    """The derivative of an opened call with respect to some of its arguments; `several` where it is a tuple of them."""

    opened: Opened
    wrt: Sequence[int]
    span: Span
    several: bool

    def forward(self) -> typed.Expr:
        """One column for every element of the arguments."""
        value, columns = tangent_type(self.opened.value.type), list[list[typed.Expr]]()
        for position in self.wrt:
            argument = self._argument(position)
            for place, leaf in enumerate(_leaves(argument)):
                seed = _tree(argument, self._seeds(place, leaf), self.span)
                tangent = item_of(self.opened.derivative([position], [seed], reverse=False), 1, self.span)
                ranks = [own.rank for own in _leaves(value)]
                whole = self._mapped(tangent, leaf, ranks)
                rows = zip(_values(whole, self.span), _leaves(value), strict=True)
                columns.append([self._shaped(column, (*own.dims, *leaf.dims)) for column, own in rows])
        outputs = iter(range(len(_leaves(value))))
        return _tree(value, lambda _: self._by_arguments(self._column(columns, next(outputs))), self.span)

    @staticmethod
    def _column(columns: Sequence[Sequence[typed.Expr]], output: int) -> Iterator[typed.Expr]:
        return iter([column[output] for column in columns])

    def in_reverse(self) -> typed.Expr:
        """One row for every element of the value."""
        value = tangent_type(self.opened.value.type)
        rows = list[typed.Expr]()
        for place, leaf in enumerate(_leaves(value)):
            seed = _tree(value, self._seeds(place, leaf), self.span)
            cotangents = item_of(self.opened.derivative(self.wrt, [seed]), 1, self.span)
            arguments = [own for position in self.wrt for own in _leaves(self._argument(position))]
            whole = self._mapped(cotangents, leaf, [0] * len(arguments))
            pairs = zip(_values(whole, self.span), arguments, strict=True)
            found = [self._shaped(row, (*leaf.dims, *own.dims)) for row, own in pairs]
            rows.append(self._by_arguments(iter(found)))
        made = iter(rows)
        return _tree(value, lambda _: next(made), self.span)

    def _argument(self, position: int) -> Type:
        place = self.opened.places[position]
        assert place is not None, "what has a tangent has a name"
        return tangent_type(self.opened.args[place].type)

    def _by_arguments(self, found: Iterator[typed.Expr]) -> typed.Expr:
        """One derivative for every tensor of the arguments, made like them."""
        made = [_tree(self._argument(position), lambda _: next(found), self.span) for position in self.wrt]
        return make_tuple(made, self.span) if self.several else made[0]

    @property
    def _name(self) -> str:
        return f"direction of {self.span.start}"

    def _seeds(self, place: int, leaf: TensorType) -> Callable[[TensorType], typed.Expr]:
        """A direction in the tensor at one place, zeros in the others."""
        leaves = iter(range(place + 1))

        def seed(type_: TensorType) -> typed.Expr:
            if next(leaves, None) == place:
                return typed.Local(leaf, self.span, self._name)
            return typed.Apply(type_, self.span, Zeros(type_.dims, type_.dtype, type_.policy), ())

        return seed

    def _mapped(self, value: typed.Expr, leaf: TensorType, axes: Sequence[int]) -> typed.Expr:
        """The value for every direction in a tensor."""
        count = product(leaf.dims)
        rows = TensorType((count, *leaf.dims), leaf.dtype, leaf.policy)
        square = TensorType((count, count), leaf.dtype, leaf.policy)
        identity = typed.Apply(square, self.span, Eye(count, dtype=leaf.dtype, policy=leaf.policy), ())
        basis = typed.Apply(rows, self.span, Reshape(rows.dims), (identity,))
        param = typed.Param(self._name, leaf, self.span)
        whole = _with_dims(value.type, iter(axes), count)
        return typed.Mapped(whole, self.span, (param,), (basis,), ((0,),), value, tuple(axes), count)

    def _shaped(self, value: typed.Expr, dims: tuple[Dim, ...]) -> typed.Expr:
        type_ = value.type
        assert isinstance(type_, TensorType)
        shaped = TensorType(dims, type_.dtype, type_.policy)
        return value if type_ == shaped else typed.Apply(shaped, self.span, Reshape(dims), (value,))


# --------------------------------------------------------------------------------------------------- leaves


def _smooth_leaves(type_: Type) -> list[Type]:
    inner = parts(type_)
    if inner is None:
        return [type_] if is_smooth(type_) else []
    return [leaf for part in inner for leaf in _smooth_leaves(part)]


def _leaves(type_: Type) -> list[TensorType]:
    return [leaf for leaf in _smooth_leaves(type_) if isinstance(leaf, TensorType)]


def _values(value: typed.Expr, span: Span) -> list[typed.Expr]:
    """The tensors of a value that is a tangent."""
    if isinstance(value.type, Aggregate):
        return [leaf for item in tuple_items(value, span) for leaf in _values(item, span)]
    return [] if is_static(value.type) else [value]


def _tree(type_: Type, leaf: Callable[[TensorType], typed.Expr], span: Span) -> typed.Expr:
    """A value made like one of this type, with something else for each of its tensors."""
    if isinstance(type_, TensorType):
        return leaf(type_)
    if not isinstance(type_, Aggregate) or is_static(type_):
        return typed.Static(type_, span)
    items = [_tree(part, leaf, span) for part in parts(type_) or ()]
    return make_value(with_parts(type_, (item.type for item in items)), items, span)


def _with_dims(type_: Type, axes: Iterator[int], size: Dim) -> Type:
    if isinstance(type_, TensorType):
        axis = next(axes)
        return TensorType((*type_.dims[:axis], size, *type_.dims[axis:]), type_.dtype, type_.policy)
    if not isinstance(type_, Aggregate) or is_static(type_):
        return type_
    return with_parts(type_, [_with_dims(part, axes, size) for part in parts(type_) or ()])
