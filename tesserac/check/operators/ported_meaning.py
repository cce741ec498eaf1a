"""Warns of calls in PyTorch's words that mean something else here: where its meaning and NumPy's differ under one name,
the library has NumPy's (W0215).

    x.std(dim=1)        divides by N; in PyTorch by N - 1
    x.median(dim=1)     of an even number is between the two in the middle; in PyTorch the lower one
    x.max(1)[0]         is the first of the largest; in PyTorch all of them, beside their places
    x.split(3, dim=1)   is three parts; in PyTorch parts of three
    x.repeat(2, 1)      repeats elements along axis 1; in PyTorch the whole, twice along axis 0
    x.unfold(2, 3, 1)   is of windows of 2, their elements 3 apart; in PyTorch of 3 along axis 2

A call that says `dim=` is known to be in PyTorch's words, with `axis=` it is NumPy's. Of one without either it is the
form that tells: an item of `max(1)`; the method `repeat` with one number for each dim, and the method `unfold` with
three numbers, may be either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, type_text
from tesserac.check.names.foreign_calls import call_here, item_here
from tesserac.check.names.foreign_methods import method_here
from tesserac.check.names.foreign_names import AXIS_FIRST, COUNTS, MODULES
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205, E0210, E0215, W0215
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import FloatType, IntType, TensorType, Type

OF_PYTORCH = "dim"
SPREADS = ("std", "var")
KEPT = "keepdim"
MEDIAN = "median"
_LOWER = {"dim": "axis", "keepdim": "keep", "keepdims": "keep"}
"""What parameters of `median` are called by `quantile`."""
WITH_PLACES = ("max", "min", "median", "sort", "cummax", "cummin")
"""What has two results in PyTorch: values and their places."""
PIECES = {"narrow": 4, "select": 3}
"""Methods that are of another thing here, by how many arguments they have in PyTorch."""
DIVISORS = ("ddof", "correction")
_MOST_PARTS = 16
_PICKED = re.compile(r"\[[01]\]|\.values|\.indices")


def tell_of_statistics(body: Body, name: str, callee: Callee, args: Sequence[Arg]) -> None:
    """Of `std` and `var`, unless the call says what they divide by, and of `median`."""
    word = _word_of_pytorch(args)
    if word is None and name in SPREADS:
        word = next((arg for arg in args if arg.name == KEPT), None)
    if word is None or any(arg.name in DIVISORS for arg in args):
        return
    if name in SPREADS:
        draft = body.sink.warning(W0215, at=word.span, difference=f"`{name}` divides by N, in PyTorch by N - 1")
        behind = Span(word.value.span.file, word.value.span.end, word.value.span.end)
        draft.fix("divide by N - 1, as PyTorch does", Edit(behind, ", correction=1"))
        theirs = "keepdims" if word.name == KEPT else "axis"
        draft.fix(f"divide by N: `{theirs}` is NumPy's word", Edit(word.span, theirs))
    elif name == MEDIAN and not _is_picked(body, callee) and not _is_odd(_size_along(args[0].value, word.value)):
        text = "`median` is between two elements, in PyTorch the lower"
        draft = body.sink.warning(W0215, at=word.span, difference=text)
        x, *said = (body.rules.text(arg.value.span) for arg in args)
        named = [f"{_LOWER.get(arg.name or '', 'axis')}={text}" for arg, text in zip(args[1:], said, strict=True)]
        lower = f'quantile({", ".join([x, "0.5", *named])}, method="lower")'
        draft.replace(f"the lower is `{lower}`", callee.span, lower)
        draft.fix("between the two: `axis` is NumPy's word", Edit(word.span, "axis"))


def _is_picked(body: Body, callee: Callee) -> bool:
    """Whether one of two results is taken of a call, which is told where it is taken."""
    end = callee.span.end
    return _PICKED.match(body.rules.text(Span(callee.span.file, end, end + len(".indices")))) is not None


def tell_of_norm(body: Body, name: str, callee: Callee, args: Sequence[Arg]) -> None:
    """Of the method `norm` of a matrix with an order; NumPy's arrays have no such method."""
    is_method, tensor = callee.at.start > callee.span.start, args[0].value.type if args else None
    if name != "norm" or not is_method or len(args) != 2 or not isinstance(tensor, TensorType) or tensor.rank != 2:
        return
    if args[1].name not in (None, "p", "ord") or not isinstance(args[1].value.type, IntType | FloatType):
        return
    text = "`norm` of a matrix is a matrix norm, in PyTorch one of all its elements"
    draft = body.sink.warning(W0215, at=callee.at, difference=text)
    matrix, order = (body.rules.text(arg.value.span) for arg in args)
    draft.replace("of all elements, as in PyTorch", callee.span, f"vector_norm({matrix}, {order})")
    draft.replace("a matrix norm", callee.span, f"norm({matrix}, {order})")


def tell_of_parts(body: Body, callee: Callee, args: Sequence[Arg], given: Mapping[str, typed.Expr]) -> None:
    """Of `split`, unless both meanings are one."""
    is_method, by_position = callee.at.start > callee.span.start, all(arg.name is None for arg in args)
    word, count = _word_of_pytorch(args), _number(given["parts"])
    if word is None and is_method and by_position and len(args) == 3:
        word = args[2]  # NumPy's arrays have no such method
    size = _size_along(given["x"], given.get("axis"))
    if word is None or callee.name != "split" or count is None or count < 1 or size == count * count:
        return
    text = f"`split` makes {count} equal parts, in PyTorch parts of {count}"
    draft = body.sink.warning(W0215, at=word.span, difference=text)
    if size is not None and size % count == 0:
        title = f"parts of {count}, as in PyTorch: {size // count} of them"
        draft.fix(title, Edit(given["parts"].span, str(size // count)), _named_axis(word))
    else:
        draft.fix("parts of given sizes are `split_with_sizes(x, sizes, axis)`")
    draft.fix(f"{count} equal parts: `axis` is NumPy's word", _named_axis(word))
    draft.fix(f"`chunk(x, {count}, dim)` is {count} equal parts in both")


def _named_axis(arg: Arg) -> Edit:
    """The axis by its name, in place of `dim` or of nothing."""
    at = arg.value.span
    return Edit(arg.span, "axis") if arg.name is not None else Edit(at._replace(end=at.start), "axis=")


def refuse_size_of_parts(body: Body, args: Sequence[Arg], given: Mapping[str, typed.Expr]) -> bool:
    """`split(x, D)` of [3*D], parts of D as in PyTorch: how many there are has to be known, and a size is not."""
    parts, x, axis = given["parts"], given["x"].type, _number(given.get("axis")) or 0
    size = parts.type.value if isinstance(parts.type, IntType) else ONE
    if size.constant is not None or body.wants_value(size) or not isinstance(x, TensorType):
        return False
    if not -x.rank <= axis < x.rank:
        return False
    found = [count for count in range(1, _MOST_PARTS + 1) if body.facts.same(size * Dim.const(count), x.dims[axis])]
    if not found:
        return False
    draft = body.sink.error(E0215, at=parts.span, what=f"how many parts there are ({dim_text(size)})")
    word = _word_of_pytorch(args)
    renamed = () if word is None else (Edit(word.span, "axis"),)
    draft.fix(f"parts of {size}, as in PyTorch: {found[0]} of them", Edit(parts.span, str(found[0])), *renamed)
    return True


def tell_of_repeats(body: Body, callee: Callee, args: Sequence[Arg]) -> None:
    """Of the method `repeat` with one number for each dim; the function is NumPy's."""
    is_method, by_position = callee.at.start > callee.span.start, all(arg.name is None for arg in args)
    numbers = [_number(arg.value) for arg in args[1:]]
    if not is_method or not by_position or len(numbers) not in (1, 2) or None in numbers:
        return
    if numbers[1:] and numbers[1] not in (0, 1):  # no axis of a matrix, which is told
        return
    if not isinstance(args[0].value.type, TensorType) or args[0].value.type.rank != len(numbers):
        return
    text = f"`repeat` has each element {numbers[0]} times, in PyTorch the whole"
    draft = body.sink.warning(W0215, at=callee.at, difference=text)
    x, last = args[0].value.span, args[-1].value.span
    tiled = f"tile({body.rules.text(x)}, ({', '.join(map(str, numbers))}{',' * (len(numbers) == 1)}))"
    draft.replace(f"the whole, as in PyTorch, is `{tiled}`", callee.span, tiled)
    if len(numbers) == 1:
        draft.fix("each element, as in NumPy", Edit(Span(last.file, last.end, last.end), ", axis=0"))
    else:
        draft.fix(f"each element along axis {numbers[1]}, as in NumPy", Edit(last, f"axis={numbers[1]}"))


def tell_of_windows(body: Body, name: str, callee: Callee, args: Sequence[Arg]) -> None:
    """Of the method `unfold` with an axis, a size and a step; the function is PyTorch's of images."""
    is_method, by_position = callee.at.start > callee.span.start, all(arg.name is None for arg in args)
    if name != "unfold" or not is_method or not by_position or len(args) != 4:
        return
    numbers = [_number(arg.value) for arg in args[1:]]
    if None in numbers:
        return
    text = f"`unfold` has windows of {numbers[0]}, in PyTorch of {numbers[1]} along axis {numbers[0]}"
    draft = body.sink.warning(W0215, at=callee.at, difference=text)
    x, axis, size, step = (body.rules.text(arg.value.span) for arg in args)
    draft.fix("windows along an axis, as in PyTorch", Edit(callee.span, f"windows({x}, {size}, {axis}, stride={step})"))
    names = zip(("dilation", "padding"), args[2:], strict=True)
    edits = [Edit(arg.value.span, f"{name}={body.rules.text(arg.value.span)}") for name, arg in names]
    draft.fix("columns of images: name what the numbers are", *edits)


def refuses_order(body: Body, callee: Callee, args: Sequence[Arg]) -> bool:
    """Whether the arguments of a method stand as in PyTorch, where they mean something else: that is told."""
    if _is_axis_first(callee.name, args):
        _refuse_axis_first(body, callee, args)
    elif _is_counted(callee.name, args):
        _refuse_counts(body, callee, args)
    elif len(args) == PIECES.get(callee.name) and all(isinstance(arg.value.type, IntType) for arg in args[1:]):
        _refuse_piece(body, callee, args)
    else:
        return False
    return True


def _refuse_piece(body: Body, callee: Callee, args: Sequence[Arg]) -> None:
    """Of the methods `narrow` and `select`, which take an axis and places along it in PyTorch."""
    call = f"{callee.name}({', '.join(body.rules.text(arg.span) for arg in args)})"
    written = call_here(("torch", callee.name), call)
    problem = f"`{callee.name}` takes no axis and places along it, as PyTorch's does"
    draft = body.sink.error(E0205, at=callee.at, problem=problem)
    if written is not None:
        draft.replace(f"here it is `{written}`", callee.span, written, advice=f"here it is `{written}`")


def _is_axis_first(name: str, args: Sequence[Arg]) -> bool:
    """Whether a method is given the axis before the places, as in PyTorch: `x.gather(1, i)`."""
    types = [arg.value.type for arg in args]
    if name not in AXIS_FIRST or len(types) != (4 if name == "scatter_add" else 3):
        return False
    return isinstance(types[1], IntType) and isinstance(types[2], TensorType)


def _refuse_axis_first(body: Body, callee: Callee, args: Sequence[Arg]) -> None:
    tensor, axis, places, *values = (body.rules.text(arg.value.span) for arg in args)
    expected = "an axis: a position or the name of a dim"
    draft = body.sink.error(E0210, at=args[2].value.span, expected=expected, found=type_text(args[2].value.type))
    draft.remark(f"what PyTorch calls `{callee.name}` is here {AXIS_FIRST[callee.name]}")
    if values:
        change = f"add({values[0]})"
        written = scattered(args[0].value.type, tensor, _number(args[1].value), places, change)
        words = f"here it is `{written}`"
    else:
        made = method_here(callee.name, tensor, f"{axis}, {places}")
        written, words = ("", "") if made is None else (made.text, made.words)
    if written:
        draft.replace(words, callee.span, written, advice=words)


def scattered(type_: Type, tensor: str, axis: int | None, places: str, change: str) -> str:
    """`scatter_add` and `scatter` of PyTorch, whose places are as many as the values, of vectors and matrices; `change`
    is what becomes of those places, `add(v)`."""
    rank = type_.rank if isinstance(type_, TensorType) else 0
    if rank not in (1, 2) or axis is None or not -rank <= axis < rank:
        return ""
    rows, columns = f"arange({places}.shape[0])[:, None]", f"arange({places}.shape[1])[None, :]"
    where = places if rank == 1 else f"{places}, {columns}" if axis % rank == 0 else f"{rows}, {places}"
    return f"{tensor}.at[{where}].{change}"


def _is_counted(name: str, args: Sequence[Arg]) -> bool:
    """Whether a method is given how often each dim is repeated, as in PyTorch: `x.repeat(2, 1, 1)`; of two numbers the
    second is one where it is no axis."""
    counts = [arg for arg in args[1:] if arg.name is None and isinstance(arg.value.type, IntType)]
    if name not in COUNTS or len(counts) != len(args) - 1:
        return False
    tensor, last = args[0].value.type, _number(args[-1].value)
    is_axis = not isinstance(tensor, TensorType) or last is None or -tensor.rank <= last < tensor.rank
    return len(counts) > 2 or (len(counts) == 2 and not is_axis)


def _refuse_counts(body: Body, callee: Callee, args: Sequence[Arg]) -> None:
    tensor, *counts = (body.rules.text(arg.value.span) for arg in args)
    problem = f"`{callee.name}` takes one number, and an axis; {len(counts)} numbers were given"
    draft = body.sink.error(E0205, at=callee.at, problem=problem)
    draft.remark(f"what PyTorch calls `{callee.name}` is here {COUNTS[callee.name]}")
    written = f"tile({tensor}, ({', '.join(counts)}))"
    draft.replace(f"here it is `{written}`", callee.span, written, advice="here it is `tile(x, counts)`")


def tell_of_results(body: Body, node: ast.Subscript, rank: int) -> None:
    """Of `x.max(dim=1)[0]`, and `x.max(1)[0]`, which nobody writes who means a row of the largest; of `x.sort()[0]`
    where it is a row."""
    called, entry = node.value, node.arguments[0].value
    if not isinstance(called, ast.Call) or not isinstance(entry, ast.IntLiteral) or len(node.arguments) > 1:
        return
    name, axis = _name_of(called.function), _axis_of_pytorch(called)
    is_named = any(argument.name == "axis" for argument in called.arguments)
    rows = not is_named and (axis is not None or (rank > 1 and name == "sort") or len(_behind_tensor(called)) > 1)
    if name not in WITH_PLACES or not rows or entry.value not in (0, 1):
        return
    text = f"`{name}` gives values, in PyTorch values and places"
    draft = body.sink.warning(W0215, at=node.span, difference=text)
    behind = Edit(Span(node.span.file, called.span.end, node.span.end), "")
    picked = picked_result(body, called, entry.value) if name in (MEDIAN, "cummax", "cummin") else None
    if picked is not None and (name == MEDIAN or entry.value == 1):
        draft.replace("as PyTorch has it", node.span, picked)
    elif name == MEDIAN:
        draft.remark('values are `quantile(x, 0.5, axis=, method="lower")`; their places have no form here')
        return
    elif entry.value == 0:
        draft.fix("all values", behind)
    elif name in ("max", "min", "sort"):
        draft.fix(f"their places are `arg{name}`", Edit(_name_span(called.function), f"arg{name}"), behind)
    else:
        return
    if axis is not None:
        draft.fix("one row of the values: `axis` is NumPy's word", axis)


def picked_result(body: Body, called: ast.Call, item: int) -> str | None:
    """One of two results of a call in PyTorch's words, `x.median(1)[0]`, in those of this library."""
    text, first = body.rules.text, called.function
    given = [text(argument.span) for argument in called.arguments]
    if isinstance(first, ast.Attribute) and not _is_module(first.value):
        given.insert(0, text(first.value.span))
    name = _name_of(first)
    return item_here(("torch", name), f"{name}({', '.join(given)})", item)


def _axis_of_pytorch(called: ast.Call) -> Edit | None:
    """How the axis of a call in PyTorch's words is said in NumPy's; None for a call in those."""
    names = {argument.name: argument for argument in called.arguments if argument.name is not None}
    if "axis" in names:
        return None
    if OF_PYTORCH in names:
        return Edit(names[OF_PYTORCH].name_span, "axis")
    places = _behind_tensor(called)
    return Edit(places[0]._replace(end=places[0].start), "axis=") if len(places) == 1 else None


def _behind_tensor(called: ast.Call) -> list[Span]:
    """Arguments by position, but for the tensor."""
    places = [argument.value.span for argument in called.arguments if argument.name is None]
    is_method = isinstance(called.function, ast.Attribute) and not _is_module(called.function.value)
    return places if is_method else places[1:]


def _is_module(node: ast.Expr) -> bool:
    return isinstance(node, ast.Name) and node.id in MODULES


def _name_span(function: ast.Expr) -> Span:
    return function.name_span if isinstance(function, ast.Attribute) else function.span


def _name_of(function: ast.Expr) -> str:
    match function:
        case ast.Attribute(name=name) | ast.Name(id=name):
            return name
    return ""


def _is_odd(size: int | None) -> bool:
    return size is not None and size % 2 == 1


def _number(value: typed.Expr | None) -> int | None:
    return value.type.value.constant if value is not None and isinstance(value.type, IntType) else None


def _size_along(tensor: typed.Expr, axis: typed.Expr | None) -> int | None:
    """That of an axis of a tensor, where both are known."""
    place = _number(axis)
    if not isinstance(tensor.type, TensorType) or place is None or not -tensor.type.rank <= place < tensor.type.rank:
        return None
    return tensor.type.dims[place].constant


def _word_of_pytorch(args: Sequence[Arg]) -> Arg | None:
    return next((arg for arg in args if arg.name == OF_PYTORCH), None)
