"""The values that operator expressions under construction are made of, each once.

Enters: typed expressions. Leaves: their places, equal for equal values, so that equal operators have equal trees; and
an operator value made of the tree and the values it needs.
"""

from __future__ import annotations

from typing import cast

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_value, tuple_items
from tesserac.diag.codes.operators import E0802
from tesserac.types.algebra import Leaf, Tree, leaves_of, renumbered, said_dtypes
from tesserac.types.dims import Dim
from tesserac.types.dtype import ALL, component
from tesserac.types.ty import ErrorType, IntType, OperatorType, TensorType, Type, number_types

_PARTS = {dtype.name: component(dtype).name for dtype in ALL}


class Pool:
    """Values by place."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.values: list[typed.Expr] = []
        self.said: list[str] = []
        """The dtypes that were said of operators taken in: what has no numbers of its own may take them."""

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.values)

    def add(self, value: typed.Expr) -> Leaf:
        """The place of a value, which is that of an equal one if there is one."""
        for place, known in enumerate(self.values):
            if same_value(self.body, known, value):
                return Leaf(place)
        self.values.append(value)
        return Leaf(len(self.values) - 1)

    def size(self, dim: Dim, span: Span) -> Leaf:
        return self.add(typed.Static(IntType(dim), span))

    def take(self, operator: typed.Expr) -> Tree:
        """The tree of an operator, over this pool's places."""
        assert isinstance(operator.type, OperatorType)
        self.said += said_dtypes(operator.type.tree)
        places = [self.add(item).index for item in tuple_items(operator, operator.span)]
        return renumbered(operator.type.tree, places.__getitem__)

    def value(self, tree: Tree, span: Span) -> typed.Expr:
        """The operator as a value of what its tree needs, in the order in which the tree needs it; an error where
        one of these is."""
        needed = list(dict.fromkeys(leaves_of(tree)))
        items = [self.values[place] for place in needed]
        if any(isinstance(item.type, ErrorType) for item in items) or self._mixes(tree, items, span):
            return self.body.error(span)
        own = renumbered(tree, {place: i for i, place in enumerate(needed)}.__getitem__)
        return make_value(OperatorType(own, tuple(item.type for item in items)), items, span)

    def _mixes(self, tree: Tree, items: list[typed.Expr], span: Span) -> bool:
        """Whether an operator would have numbers of two precisions, which is told where it is made."""
        numbers = [(item, type_.dtype.name) for item in items for type_ in number_types([item.type])]
        met = sorted({_PARTS[name] for name in [*(name for _, name in numbers), *said_dtypes(tree)]})
        if len(met) <= 1:
            return False
        problem = f"numbers of {met[0]} and {met[1]} meet in one operator"
        draft = self.body.sink.error(E0802, at=span, problem=problem)
        for item, name in numbers:
            draft.note(item.span, f"{name}")
        narrow = next((item for item, name in numbers if _PARTS[name] == met[0]), None)
        if narrow is None or not narrow.span.known:
            draft.remark("`cast(x, f64)` widens a tensor or a number, to c128 where it is complex")
        else:
            wide = "c128" if isinstance(narrow.type, TensorType) and narrow.type.dtype.is_complex else "f64"
            text = self.body.rules.text(narrow.span)
            draft.replace(f"widen it to {wide}", narrow.span, f"cast({text}, {wide})")
        return True


def same_value(body: Body, left: typed.Expr, right: typed.Expr) -> bool:
    """Whether two expressions certainly have one value: they are the same computation on the same names."""
    left, right = _resolved(body, left), _resolved(body, right)
    if left is right:
        return True
    if type(left) is not type(right) or left.type != right.type:
        return False
    match left:
        case typed.Static():
            return True
        case typed.Local():
            origin = body.origins.get(left)
            return origin is not None and origin is body.origins.get(cast(typed.Local, right))
        case typed.Weight(name=name):
            return name == cast(typed.Weight, right).name
        case typed.Item(index=index):
            return index == cast(typed.Item, right).index and _all_same(body, left, right)
        case typed.Apply(op=op):
            return op == cast(typed.Apply, right).op and _all_same(body, left, right)
        case typed.Call():
            return _same_call(body, left, cast(typed.Call, right))
        case typed.Coerce() | typed.TupleOf():
            return _all_same(body, left, right)
    return False


def _same_call(body: Body, left: typed.Call, right: typed.Call) -> bool:
    """A call that draws from the stream of its module draws anew each time."""
    drawn = typed.STREAM in left.reads and (left.key is None or right.key is None)
    return not drawn and (left.function, left.dims) == (right.function, right.dims) and _all_same(body, left, right)


def _all_same(body: Body, left: typed.Expr, right: typed.Expr) -> bool:
    ours, theirs = _operands(left), _operands(right)
    return len(ours) == len(theirs) and all(same_value(body, a, b) for a, b in zip(ours, theirs, strict=True))


def _operands(value: typed.Expr) -> tuple[typed.Expr, ...]:
    match value:
        case typed.Apply(operands=operands):
            return operands
        case typed.Call(args=args, key=key):
            return args if key is None else (*args, key)
        case typed.TupleOf(items=items):
            return items
        case typed.Item(value=inner) | typed.Coerce(value=inner):
            return (inner,)
    return ()


def _resolved(body: Body, value: typed.Expr) -> typed.Expr:
    """What a name was assigned, and what stands at its place in a value put together."""
    if isinstance(value, typed.Local):
        origin = body.origins.get(value)
        stands_for = origin.value if origin is not None and origin.is_value else None
        return value if stands_for is None else _resolved(body, stands_for)
    if isinstance(value, typed.Item):
        inner = _resolved(body, value.value)
        return _resolved(body, inner.items[value.index]) if isinstance(inner, typed.TupleOf) else value
    return value
