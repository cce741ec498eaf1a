"""Values made of tensors, leaf by leaf: `tree_map(f, a, b)`, `leaves(a)`.

Enters: structs, tuples and lists of the same kind. Leaves: what a function makes of the leaves that stand at the same
place, put together as they were; or all leaves, as a tuple. What is known while compiling is no leaf, nor is a float
that is a setting of a struct: it stays, unless `floats=True` asks for it. Where a gradient has None, since an integer
has no derivative, the first tree keeps its leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat

from tesserac.base.dataclass import dataclass
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body, is_static
from tesserac.check.values.generic_items import any_item, stand_in
from tesserac.check.values.tuples import make_tuple, recomputed, tuple_items
from tesserac.diag.codes.names import E0205, E0210
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    Aggregate,
    BoolType,
    ErrorType,
    ListType,
    NoneType,
    StructType,
    TupleType,
    Type,
    parts,
    setting_fields,
)

Call = Callable[[Body, typed.Expr, Sequence[Arg], Callee], typed.Expr]
Apply = Callable[[Sequence[typed.Expr]], typed.Expr]


def tree_map(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`tree_map(f, a, b)`; a function that gives a tuple makes a tuple of trees."""
    asked = [arg.value.type for arg in args if arg.name == "floats"]
    args = [arg for arg in args if arg.name != "floats"]
    if len(args) < 2 or any(arg.name for arg in args) or not all(isinstance(type_, BoolType) for type_ in asked):
        problem = f"`{callee.name}` takes a function and one or more trees, by position"
        body.sink.error(E0205, at=callee.at, problem=problem)
        return body.error(callee.span)
    function, *trees = (arg.value for arg in args)
    floats = any(isinstance(type_, BoolType) and type_.value for type_ in asked)

    def apply(found: Sequence[typed.Expr]) -> typed.Expr:
        return call(body, function, [Arg(None, leaf.span, leaf) for leaf in found], callee)

    return map_leaves(body, trees, callee, apply, floats=floats)


def map_leaves(
    body: Body, trees: Sequence[typed.Expr], callee: Callee, apply: Apply, *, floats: bool = False
) -> typed.Expr:
    """What `apply` makes of the leaves at the same place in all trees, as a tree."""
    mapped = _map(body, trees, callee, _Leaves(apply, floats))
    if mapped is None:
        return body.error(callee.span)
    return mapped[0] if len(mapped) == 1 else make_tuple(mapped, callee.span)


@dataclass(frozen=True)
class _Leaves:
    """What is made of leaves, and whether floats of structs are leaves."""

    apply: Apply
    floats: bool

    def kept(self, tree: Type) -> Iterator[bool]:
        """Of each part of a tree whether it stays as it is."""
        settings = () if self.floats else setting_fields(tree)
        return chain(settings, repeat(False))


def _map(body: Body, trees: Sequence[typed.Expr], callee: Callee, leaves: _Leaves) -> list[typed.Expr] | None:
    """One tree per value that the function gives for a leaf; None after a diagnostic."""
    first = trees[0]
    if isinstance(first.type, ErrorType) or not _alike(body, trees, callee):
        return None
    if is_static(first.type) or any(isinstance(tree.type, NoneType) for tree in trees):
        return [first]
    if isinstance(first.type, ListType):
        return _map_any(body, trees, first.type.count, callee, leaves)
    if not isinstance(first.type, Aggregate):
        value = leaves.apply(trees)
        if isinstance(value.type, ErrorType):
            return None
        return list(tuple_items(value, callee.span)) if isinstance(value.type, TupleType) else [value]
    inner = zip(*(tuple_items(tree, tree.span) for tree in trees), strict=True)
    mapped = [
        [items[0]] if stays else _map(body, items, callee, leaves)
        for items, stays in zip(inner, leaves.kept(first.type), strict=False)
    ]
    found = [items for items in mapped if items is not None]
    if len(found) < len(mapped):
        return None
    count = max((len(items) for items in found), default=1)
    return [recomputed(first, [items[min(i, len(items) - 1)] for items in found]) for i in range(count)]


def _map_any(
    body: Body, trees: Sequence[typed.Expr], count: Dim, callee: Callee, leaves: _Leaves
) -> list[typed.Expr] | None:
    """The same for lists whose length only a call knows, with one item for all of them."""
    items = [any_item(body, tree, tree.span) for tree in trees]
    found = [item for item in items if item is not None]
    if len(found) < len(items):
        body.unknown_count(count, callee.span)
        return None
    mapped = _map(body, found, callee, leaves)
    return None if mapped is None else [stand_in(ListType(count, one.type), callee.span) for one in mapped]


def _alike(body: Body, trees: Sequence[typed.Expr], callee: Callee) -> bool:
    """Whether all trees branch as the first does."""
    first = trees[0].type
    for tree in trees[1:]:
        if ListType in (type(first), type(tree.type)):
            continue  # a call tells how many items each has
        if not isinstance(tree.type, NoneType) and not _same_kind(first, tree.type):
            wanted, found = f"a tree like {type_text(first)}", type_text(tree.type)
            draft = body.sink.error(E0210, at=tree.span, expected=wanted, found=found)
            draft.note(trees[0].span, "the first tree")
            return False
    return True


def _same_kind(left: Type, right: Type) -> bool:
    if isinstance(left, StructType) and isinstance(right, StructType):
        return (left.module, left.name) == (right.module, right.name)
    branches = [parts(type_) for type_ in (left, right)]
    if branches[0] is None or branches[1] is None:
        return branches[0] is branches[1]
    return type(left) is type(right) and len(branches[0]) == len(branches[1])


def tree_leaves(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`leaves(a)`: every tensor of a tree, from left to right."""
    if len(args) != 1 or args[0].name:
        body.sink.error(E0205, at=callee.at, problem=f"`{callee.name}` takes one tree")
        return body.error(callee.span)
    found: list[typed.Expr] = []

    def collect(tree: typed.Expr) -> bool:
        if isinstance(tree.type, ListType):
            body.unknown_count(tree.type.count, callee.span)
            return False
        if is_static(tree.type):
            return not isinstance(tree.type, ErrorType)
        if isinstance(tree.type, Aggregate):
            settings = chain(setting_fields(tree.type), repeat(False))
            items = zip(tuple_items(tree, tree.span), settings, strict=False)
            return all([collect(item) for item, stays in items if not stays])
        found.append(tree)
        return True

    return make_tuple(found, callee.span) if collect(args[0].value) else body.error(callee.span)
