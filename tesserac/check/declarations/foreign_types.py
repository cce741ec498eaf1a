"""Types as other languages and libraries write them: what is meant by each.

Enters: an annotation that is no type here, or a `Tensor[...]` whose entries are not dims and a dtype. Leaves: the
edits that make it one, and the type it then is, with which the checker goes on: nothing else is wrong because of how a
type was written. JAX prints `f32[8, 16]`, jaxtyping has `Float[Array, "b n"]`, Python has `Optional[A]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.names.foreign_names import DTYPE_WORDS
from tesserac.diag.codes.names import E0204
from tesserac.diag.diagnostic import Applicability, Edit
from tesserac.diag.sink import Sink
from tesserac.porting.layers import STRUCTS
from tesserac.syntax import ast
from tesserac.syntax.describe import dotted_name
from tesserac.syntax.walk import descendants
from tesserac.types import dtype as dtypes

_SHAPED = {
    "Bool": "bool",
    "Complex": "c64",
    "Float": "f32",
    "Inexact": "f32",
    "Int": "i32",
    "Integer": "i32",
    "Num": "f32",
    "Real": "f32",
    "Shaped": "f32",
    "UInt": "u32",
}
"""Heads of jaxtyping that leave the width open; its others are spellings of a dtype."""
_OPERATORS = ("LinearOperator", "LinOp", "AbstractLinearOperator")
_OPERATOR_FORM = "the type of an operator is `Operator[N, M]`, from N to M entries"
_ARRAYS = {
    "Array": "",
    "ArrayLike": "",
    "BoolTensor": "bool",
    "DoubleTensor": "f64",
    "FloatTensor": "f32",
    "HalfTensor": "f16",
    "IntTensor": "i32",
    "LongTensor": "i64",
    "Matrix": "f32",
    "NDArray": "",
    "Tensor": "",
    "Vector": "f32",
    "ndarray": "",
}
"""Names of arrays, and the element type that some of them say."""
_MODULES = ("jax", "jaxtyping", "jnp", "np", "numpy", "optax", "tl", "torch", "typing")
_CONTAINERS = ("Callable", "Iterable", "ModuleList", "Sequence", "Tuple", "Union", "dict", "list", "set", "tuple")

_LISTS = ("Iterable", "List", "ModuleList", "Sequence", "list")
_COUNTS = ("L", "Layers", "Count", "HowMany")
"""What the number of a list's items is called: the first that is no size yet."""

_STATE = "OptimizerState"
_STATES = ("AdamState", "AdamWState", "MomentumState", "OptState", "OptimState", "SGDState")
_STATE_FORM = "the state of an optimiser, of these weights, is `OptimizerState[W]`"
"""What optax and others call that."""

_NETWORKS = ("nn.Module", "torch.nn.Module")
_NETWORK_FORM = "a network is a struct, whose name is its type; a parameter without an annotation takes any"
_TENSOR_FORM = "a tensor has its dims and then its dtype: `Tensor[B, N, f32]`"
_DTYPE_FORM = "dtypes are `f32`, `f64`, `bf16`, `f16`, `i32`, `i64`, `bool` and others"
_KNOWN_FORM = "an `int` is known while compiling"
_OPTIONAL_FORM = "a value that may be missing is `A | None`"
_FUNCTION_FORM = "the type of a function is `fn(A, B) -> R`"
_MANY_FORM = "several values are a tuple `(A, B)`, many of one type `List[12, A]`, named ones a `struct`"


@dataclass(frozen=True)
class Foreign:
    """A type written in another way. `meant` is what it is here and `edits` make it that; without them it is not
    known, and `form` says what there is. `evident`: nothing else can be meant. `size` is one that the edits bring."""

    at: Span
    problem: str
    form: str
    edits: tuple[Edit, ...] = ()
    meant: ast.Expr | None = None
    evident: bool = True
    size: str = ""

    def report(self, sink: Sink, *declaring: Edit) -> None:
        draft = sink.error(E0204, at=self.at, problem=self.problem)
        if not self.edits:
            draft.remark(self.form)
            return
        applicability = Applicability.SAFE if self.evident else Applicability.MAYBE
        draft.fix(self.form, *self.edits, *declaring, applicability=applicability, advice=self.form)


def foreign_type(node: ast.Expr) -> Foreign | None:
    """What is meant by an annotation that is no type; None if nobody writes it so."""
    head, entries = _applied(node)
    name = _bare(head)
    if dotted_name(node) in _NETWORKS:
        behind_name = Edit(node.span._replace(start=node.span.start - len(": ")), "")
        return Foreign(node.span, f"`{dotted_name(node)}` is not a type", _NETWORK_FORM, (behind_name,))
    if name is None:
        return _layer(node, head, entries)
    if entries is None:
        return _alone(node, name)
    dtype = dtypes.lookup(name)
    width = dtype.name if dtype is not None else _SHAPED.get(name)
    match entries:
        case [_, ast.StringLiteral(value=text)] if width is not None:
            return _shaped(node, text, width)
        case [_, *_] if dtype is not None:
            return _dims_of(node, entries, dtype.name, f"`{name}` is a dtype, which has no dims", evident=True)
        case [_, *_] if name in _OPERATORS and isinstance(node, ast.Subscript):
            meant = replace(node, value=ast.Name(head.span, "Operator"))
            return Foreign(head.span, f"`{name}` is not a type", _OPERATOR_FORM, (Edit(head.span, "Operator"),), meant)
        case [_, *_] if name in _ARRAYS:
            return _dims_of(node, entries, _ARRAYS[name], f"`{name}` is not a type", evident=name == "Tensor")
    return _generic(node, name, entries)


def foreign_entries(node: ast.Subscript, is_known: Callable[[str], bool]) -> Foreign | None:
    """What is meant by a `Tensor[...]` with its dtype first or by name, or with dims in brackets or in one string. A
    name that has a meaning where it stands is not one of elsewhere."""
    if any(argument.name is not None for argument in node.arguments):
        return _named_dtype(node)
    values = [argument.value for argument in node.arguments]
    dtypes_at = [None if is_known(_bare(value) or "") else _dtype_meant(value) for value in values]
    return _dims_together(node, values) or _dtype_first(node, values, dtypes_at) or _dtype_word(node, values, dtypes_at)


def unnumbered_list(node: ast.Subscript, is_size: Callable[[str], bool]) -> Foreign | None:
    """`list[Block[D]]`: how many there are is a size like others, of the struct or of the call."""
    name, items = (dotted_name(node.value) or "").rpartition(".")[2], node.arguments
    if name not in _LISTS or len(items) != 1 or items[0].name is not None:
        return None
    mentioned = {part.id for part in descendants(items[0].value) if isinstance(part, ast.Name)}
    count = next(word for word in _COUNTS if word not in mentioned and not is_size(word))
    edits = _around(node, f"List[{count}, ", [items[0].value], "]")
    problem = "a `List` says how many there are" if name == "List" else f"`{dotted_name(node.value)}` is not a type"
    return Foreign(node.span, problem, _MANY_FORM, edits, evident=False, size=count)


def turned_list(node: ast.Subscript) -> Foreign | None:
    """`List[Block[D], L]`: the number is behind the type."""
    type_, number = (argument.value for argument in node.arguments)
    word = _word(number)
    if not isinstance(type_, ast.Subscript) or not word:
        return None
    moved = Edit(type_.span._replace(end=type_.span.start), f"{word}, ")
    gone = Edit(_gap(type_, number)._replace(end=number.span.end), "")
    meant = replace(node, arguments=node.arguments[::-1])
    return Foreign(type_.span, "a `List` has its number first", "`List[12, Block[D]]`", (moved, gone), meant)


# ------------------------------------------------------------------------------------------------ entries of a tensor


def _named_dtype(node: ast.Subscript) -> Foreign | None:
    """`Tensor[B, N, dtype=f32]`."""
    *dims, last = node.arguments
    if last.name != "dtype" or any(argument.name is not None for argument in dims):
        return None
    edit = Edit(last.span._replace(end=last.value.span.start), "")
    meant = _tensor(node, [argument.value for argument in node.arguments])
    return Foreign(last.span, "the dtype of a tensor has no name", _TENSOR_FORM, (edit,), meant)


def _dims_together(node: ast.Subscript, values: list[ast.Expr]) -> Foreign | None:
    """`Tensor[(B, N), f32]`, `Tensor[[B, N], f32]`, `Tensor["b n", f32]`."""
    for nth, value in enumerate(values):
        spread = _spread(value)
        if spread is not None:
            text, dims = spread
            meant = _tensor(node, [*values[:nth], *dims, *values[nth + 1 :]])
            problem = "the dims of a tensor stand side by side"
            return Foreign(value.span, problem, _TENSOR_FORM, (Edit(value.span, text),), meant)
    return None


def _dtype_first(node: ast.Subscript, values: list[ast.Expr], dtypes_at: list[str | None]) -> Foreign | None:
    """`Tensor[f32, B, N]`."""
    if len(values) < 2 or dtypes_at[0] is None or any(dtypes_at[1:]):
        return None
    first, last = values[0].span, values[-1].span
    moved = (
        Edit(first._replace(end=values[1].span.start), ""),
        Edit(last._replace(start=last.end), f", {dtypes_at[0]}"),
    )
    meant = _tensor(node, [*values[1:], ast.Name(first, dtypes_at[0])])
    return Foreign(first, "the dtype comes after the dims", _TENSOR_FORM, moved, meant)


def _dtype_word(node: ast.Subscript, values: list[ast.Expr], dtypes_at: list[str | None]) -> Foreign | None:
    """`Tensor[B, N, torch.float32]`, `Tensor[B, N, double]`."""
    dtype = dtypes_at[-1] if values else None
    if dtype is None or isinstance(values[-1], ast.BinaryOp) or dtypes.lookup(dotted_name(values[-1])) is not None:
        return None
    at = values[-1].span
    meant = _tensor(node, [*values[:-1], ast.Name(at, dtype)])
    problem = f"`{dotted_name(values[-1])}` is not a dtype"
    return Foreign(at, problem, _DTYPE_FORM, (Edit(at, dtype),), meant, evident=False)


# ------------------------------------------------------------------------------------------------ by the head


def _alone(node: ast.Expr, name: str) -> Foreign | None:
    """`torch.Tensor`, `ndarray`; `double`, `torch.float32`; `Any`."""
    problem = f"`{dotted_name(node)}` is not a type"
    if name in _ARRAYS:
        bare = ast.Name(node.span, "Tensor")
        return Foreign(node.span, problem, _TENSOR_FORM, (Edit(node.span, bare.id),), bare, evident=False)
    if name in ("Any", "object"):
        return Foreign(node.span, problem, "a parameter without an annotation takes what it is given")
    if name in ("Callable", "callable"):
        return Foreign(node.span, problem, _FUNCTION_FORM)
    if name in _STATES:
        return Foreign(node.span, problem, _STATE_FORM, (Edit(node.span, _STATE),), ast.Name(node.span, _STATE))
    if name in _CONTAINERS:
        return Foreign(node.span, problem, _MANY_FORM)
    if name == "constexpr":
        meant = ast.Name(node.span, "int")
        return Foreign(node.span, problem, _KNOWN_FORM, (Edit(node.span, meant.id),), meant)
    dtype = _dtype_meant(node)
    if dtype is None:
        return None
    meant = ast.Name(node.span, dtype)
    return Foreign(node.span, problem, _DTYPE_FORM, (Edit(node.span, dtype),), meant, evident=False)


def _shaped(node: ast.Expr, text: str, dtype: str) -> Foreign | None:
    """`Float[Array, "b n"]`."""
    names = _shape_names(text)
    if not names:
        return None
    meant = _tensor(node, [*(ast.Name(node.span, name) for name in names), ast.Name(node.span, dtype)])
    edit = Edit(node.span, f"Tensor[{', '.join([*names, dtype])}]")
    return Foreign(node.span, "this is not a type", _TENSOR_FORM, (edit,), meant, evident=False)


def _dims_of(node: ast.Expr, dims: Sequence[ast.Expr], dtype: str, problem: str, *, evident: bool) -> Foreign:
    """`f32[B, N]`, `f32[B][N]`, `Matrix[M, N]`, `Tensor(B, N, f32)`: its dims, and its dtype where they do not end in
    one."""
    added = dtype if _dtype_meant(dims[-1]) is None else ""
    commas = [Edit(_gap(before, after), ", ") for before, after in pairwise(dims)]
    opening, closing = _around(node, "Tensor[", dims, f", {added}]" if added else "]")
    named = [ast.Name(node.span, added)] if added else []
    meant = _tensor(node, [*dims, *named])
    return Foreign(node.span, problem, _TENSOR_FORM, (opening, *commas, closing), meant, evident)


def _generic(node: ast.Expr, name: str, entries: Sequence[ast.Expr]) -> Foreign | None:
    """Python's own: `Optional[A]`, `Union[A, None]`, `tuple[A, B]`, `Callable[[A], R]`."""
    at, problem = node.span, f"`{name}` is not a type"
    match name, entries:
        case (("Optional", [inner]) | ("Union", [inner, ast.NoneLiteral()]) | ("Union", [ast.NoneLiteral(), inner])):
            meant = ast.BinaryOp(at, inner, "|", at, ast.NoneLiteral(at))
            return Foreign(at, problem, _OPTIONAL_FORM, _around(node, "", [inner], " | None"), meant)
        case ("tuple" | "Tuple"), [_, *_] if not isinstance(entries[-1], ast.EllipsisLiteral):
            around = _around(node, "(", entries, ",)" if len(entries) == 1 else ")")
            return Foreign(at, problem, "the type of a tuple is `(A, B)`", around, ast.TupleExpr(at, tuple(entries)))
        case _, [weights] if name in _STATES:
            state = ast.Subscript(at, ast.Name(at, _STATE), (ast.Argument(weights.span, None, weights.span, weights),))
            return Foreign(at, problem, _STATE_FORM, _around(node, f"{_STATE}[", [weights], "]"), state)
        case "Callable", [ast.ListExpr(items=(first, *_) as items), result]:
            before, after = _around(node, "fn(", [first, result], "")
            edits = (before, Edit(_gap(items[-1], result), ") -> "), after)
            return Foreign(at, problem, _FUNCTION_FORM, edits, ast.FunctionType(at, items, result))
    if name not in _CONTAINERS:
        return None
    return Foreign(at, problem, _FUNCTION_FORM if name == "Callable" else _MANY_FORM)


def _layer(node: ast.Expr, head: ast.Expr, entries: list[ast.Expr] | None) -> Foreign | None:
    """`nn.Linear[D, H]`, `nn.Linear(D, H)`: a struct of the library."""
    name = head.name if isinstance(head, ast.Attribute) else ""
    if name not in STRUCTS or not entries:
        return None
    problem, form = f"`{dotted_name(head)}` is not a type", f"the library's layer is `{name}[...]`"
    arguments = tuple(ast.Argument(entry.span, None, entry.span, entry) for entry in entries)
    meant = ast.Subscript(node.span, ast.Name(head.span, name), arguments)
    return Foreign(head.span, problem, form, _around(node, f"{name}[", entries, "]"), meant, evident=False)


# ------------------------------------------------------------------------------------------------ parts


def _applied(node: ast.Expr) -> tuple[ast.Expr, list[ast.Expr] | None]:
    """`f32` and `B`, `N` of `f32[B, N]`, `f32[B][N]` and `f32(B, N)`; None for a name alone, and where there are named
    arguments."""
    if not isinstance(node, ast.Subscript | ast.Call):
        return node, None
    head, outer = _applied(node.value if isinstance(node, ast.Subscript) else node.function)
    values = [argument.value for argument in node.arguments if argument.name is None]
    return head, [*(outer or ()), *values] if len(values) == len(node.arguments) else None


def _bare(head: ast.Expr) -> str | None:
    """`Tensor` of `torch.Tensor`."""
    match head:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), name=name) if module in _MODULES:
            return name
    return None


def _dtype_meant(node: ast.Expr) -> str | None:
    """The dtype that a name stands for here or elsewhere, perhaps with its policy."""
    if isinstance(node, ast.BinaryOp) and node.op == "@":
        node = node.left
    name = _bare(node)
    if name is None:
        return None
    dtype = dtypes.lookup(name)
    return DTYPE_WORDS.get(name) if dtype is None else dtype.name


def _spread(node: ast.Expr) -> tuple[str, list[ast.Expr]] | None:
    """The dims of `(B, N)`, `[B, N]` or `"b n"`, and how they are written side by side."""
    match node:
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items) if items:
            words = [_word(item) for item in items]
            return (", ".join(words), list(items)) if all(words) else None
        case ast.StringLiteral(value=text) if " " in text.strip():
            names = _shape_names(text) or []
            return (", ".join(names), [ast.Name(node.span, name) for name in names]) if names else None
    return None


def _word(node: ast.Expr) -> str:
    """A dim that is one word; "" for any other."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.IntLiteral(value=value):
            return str(value)
    return ""


def _shape_names(text: str) -> list[str] | None:
    """The dims of `"b n"` under names that a size may have; None if one is no plain name."""
    words = text.split()
    return [word[0].upper() + word[1:] for word in words] if all(word.isidentifier() for word in words) else None


def _tensor(node: ast.Expr, entries: Sequence[ast.Expr]) -> ast.Subscript:
    arguments = tuple(ast.Argument(entry.span, None, entry.span, entry) for entry in entries)
    return ast.Subscript(node.span, ast.Name(node.span, "Tensor"), arguments)


def _around(node: ast.Expr, before: str, entries: Sequence[ast.Expr], after: str) -> tuple[Edit, Edit]:
    """The edits that put `before` and `after` in place of what a type has around its entries."""
    first, last = entries[0].span, entries[-1].span
    return Edit(node.span._replace(end=first.start), before), Edit(node.span._replace(start=last.end), after)


def _gap(before: ast.Expr, after: ast.Expr) -> Span:
    return Span(before.span.file, before.span.end, after.span.start)
