"""`op.eye`, `op.dense`, ...: operators made of tensors, sizes and functions.

Enters: checked arguments by name. Leaves: an operator value, or an error expression after a diagnostic.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Eye, Zero, added
from tesserac.check.algebra.elements import SAID
from tesserac.check.algebra.kinds import Conv1d, Dense, Diag, Fourier, Implicit, LowRank, Projector
from tesserac.check.algebra.operands import read, refuse, refuse_operand, require_fit, require_size, require_square
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import direct_sum, known, kronecker
from tesserac.check.algebra.structured import BlockSparse, Triangular
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.globals import BUILT_IN
from tesserac.check.values.methods import as_function
from tesserac.check.values.tuple_fixes import suggest_array
from tesserac.diag.codes.names import E0210
from tesserac.diag.sink import Draft
from tesserac.types.algebra import Leaf
from tesserac.types.dims import Dim
from tesserac.types.dtype import lookup
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    FunctionType,
    IntType,
    NoneType,
    StrType,
    TensorType,
    TransformType,
    parts,
)

Given = dict[str, typed.Expr]


def eye(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    size = size_leaf(pool, given["size"])
    known = size is not None and has_good_dtype(pool, given)
    return pool.value(Eye(size, said_dtype(given)), callee.span) if known else body.error(callee.span)


def zero(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    domain, codomain = size_leaf(pool, given["domain"]), size_leaf(pool, given.get("codomain", given["domain"]))
    known = domain is not None and codomain is not None and has_good_dtype(pool, given)
    return pool.value(Zero(domain, codomain, said_dtype(given)), callee.span) if known else body.error(callee.span)


def dense(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    if "triangular" in given:
        at, problem = given["triangular"].span, "`triangular` does not tell which triangle of the matrix is 0"
        return refuse(body, callee, at, problem, "`lower=True` or `upper=True` tells which one is not")
    matrix = tensor_leaf(pool, given["matrix"], 2)
    flags = {name: flag_value(body, given.get(name)) for name in (*PROMISES, *SHAPES)}
    if matrix is None or None in flags.values():
        return body.error(callee.span)
    said = [name for name, flag in flags.items() if flag]
    if not set(said) <= {"lower", "upper"} and not require_square(pool, Dense(matrix), given["matrix"], callee):
        return body.error(callee.span)
    shape = next((name for name in said if name in SHAPES), None)
    if shape is not None and len(said) > 1:
        problem = f"`{shape}=True` makes an operator of that shape, of which `{_other(said, shape)}` cannot be promised"
        return refuse(body, callee, given[shape].span, problem, f"the laws know what follows from `{shape}=True` alone")
    return _shaped(pool, callee, matrix, shape) if shape is not None else _promising(pool, callee, matrix, said)


PROMISES = ("unitary", "self_adjoint", "psd", "normal")
SHAPES = ("diagonal", "lower", "upper")


def _other(said: list[str], shape: str) -> str:
    return next(name for name in said if name != shape)


def _shaped(pool: Pool, callee: Callee, matrix: Leaf, shape: str) -> typed.Expr:
    """A matrix of which some entries are promised to be 0: the others are the operator."""
    value = promised(pool, callee, use_value(pool, matrix), [shape])
    if shape == "diagonal":
        entries = Application(pool, callee).call("measures._matrix_diagonal", value)
        return pool.value(Diag(pool.add(entries)), callee.span)
    return pool.value(Triangular(pool.add(value), shape == "lower"), callee.span)


def _promising(pool: Pool, callee: Callee, matrix: Leaf, said: list[str]) -> typed.Expr:
    """Each promise is looked at that does not follow from another."""
    implied = {"self_adjoint": {"psd"}, "normal": {"unitary", "self_adjoint", "psd"}}
    looked_for = [name for name in said if not implied.get(name, set()).intersection(said)]
    leaf = pool.add(promised(pool, callee, use_value(pool, matrix), looked_for))
    itself = "self_adjoint" in said or "psd" in said
    looked_at = Dense(leaf, "unitary" in said, itself, "psd" in said, "normal" in said)
    held = looked_at.matrix_of(Application(pool, callee))  # `matrix` beside the operator is what was promised, too
    return pool.value(replace(looked_at, matrix=pool.add(held)), callee.span)


def use_value(pool: Pool, leaf: Leaf) -> typed.Expr:
    return pool.values[leaf.index]


def promised(pool: Pool, callee: Callee, matrix: typed.Expr, said: list[str]) -> typed.Expr:
    """The matrix, of which what is said of it holds: it is looked at once, where the operator is made."""
    for name in said:
        for check in _LOOKED_AT[name]:
            matrix = Application(pool, callee).call(check, matrix)
    return matrix


_LOOKED_AT = {
    "unitary": ["measures._promised_unitary"],
    "self_adjoint": ["measures._promised_self_adjoint"],
    "psd": ["measures._promised_hermitian", "_promised_positive"],
    "normal": ["measures._promised_normal"],
    "diagonal": ["measures._promised_diagonal"],
    "lower": ["measures._promised_lower"],
    "upper": ["measures._promised_upper"],
    "basis": ["measures._promised_basis"],
}


def diag(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    entries = tensor_leaf(pool, given["entries"], 1)
    return body.error(callee.span) if entries is None else pool.value(Diag(entries), callee.span)


def projector(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    basis = tensor_leaf(pool, given["basis"], 2)
    if basis is None:
        return body.error(callee.span)
    return pool.value(Projector(pool.add(promised(pool, callee, use_value(pool, basis), ["basis"]))), callee.span)


def fft(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _fourier(body, callee, given, False)


def ifft(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _fourier(body, callee, given, True)


def _fourier(body: Body, callee: Callee, given: Given, is_inverse: bool) -> typed.Expr:
    pool = Pool(body)
    size = size_leaf(pool, given["size"]) if "size" in given else None
    known = ("size" not in given or size is not None) and has_good_dtype(pool, given)
    tree = Fourier(size, is_inverse, said_dtype(given))
    return pool.value(tree, callee.span) if known else body.error(callee.span)


def conv1d(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Without a size, that of the taps."""
    pool = Pool(body)
    taps = tensor_leaf(pool, given["taps"], 1)
    if taps is None:
        return body.error(callee.span)
    size = size_leaf(pool, given["size"]) if "size" in given else pool.size(length_of(pool, taps), callee.span)
    return body.error(callee.span) if size is None else pool.value(Conv1d(taps, size), callee.span)


_LOW_RANK = "`op.low_rank(left, right)` is left @ right.H: both have a column for each rank"


def low_rank(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    left, right = tensor_leaf(pool, given["left"], 2), tensor_leaf(pool, given["right"], 2)
    if left is None or right is None:
        return body.error(callee.span)
    ranks = [type_.dims[1] for leaf in (left, right) if isinstance(type_ := pool.types[leaf.index], TensorType)]
    what = "`left` has {wanted} columns and `right` has {found}"
    fits = require_fit(body, callee, (ranks[0], ranks[1]), given["left"], given["right"], what, _LOW_RANK)
    return pool.value(LowRank(left, right), callee.span) if fits else body.error(callee.span)


def block_sparse(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.block_sparse(blocks, rows, columns, Din, Dout)`: block k stands in row rows[k] and column columns[k]."""
    pool = Pool(body)
    blocks = tensor_leaf(pool, given["blocks"], 3)
    rows, columns = (indices_leaf(pool, given[name]) for name in ("rows", "columns"))
    domain, codomain = size_leaf(pool, given["domain"]), size_leaf(pool, given.get("codomain", given["domain"]))
    if blocks is None or rows is None or columns is None or domain is None or codomain is None:
        return body.error(callee.span)
    for name, leaf in (("rows", rows), ("columns", columns)):
        what = "there are {wanted} blocks, and {found} numbers of " + name
        counts = (length_of(pool, blocks), length_of(pool, leaf))
        if not require_fit(body, callee, counts, given["blocks"], given[name], what):
            return body.error(callee.span)
    return pool.value(BlockSparse(blocks, rows, columns, domain, codomain), callee.span)


def implicit(body: Body, callee: Callee, given: Given) -> typed.Expr:
    pool = Pool(body)
    forward, backward = function_leaf(pool, given["forward"]), function_leaf(pool, given["backward"])
    domain, codomain = size_leaf(pool, given["domain"]), size_leaf(pool, given.get("codomain", given["domain"]))
    if forward is None or backward is None or domain is None or codomain is None:
        return body.error(callee.span)
    return pool.value(Implicit(forward, backward, domain, codomain), callee.span)


def tensor(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`kronecker(A, B)`, `tensor(A, B)`."""
    pool = Pool(body)
    both = _both_sized(pool, callee, given)
    return body.error(callee.span) if both is None else pool.value(kronecker(pool, *both), callee.span)


def kronecker_sum(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`A ⊗ I + I ⊗ B`."""
    pool = Pool(body)
    both = _both_sized(pool, callee, given)
    pairs = zip(both or (), (given["left"], given["right"]), strict=False)
    if both is None or not all(require_square(pool, tree, value, callee) for tree, value in pairs):
        return body.error(callee.span)
    left, right = both
    ones = [Eye(pool.size(known(tree.shape(pool.types)[0]), callee.span)) for tree in both]
    terms = [kronecker(pool, left, ones[1]), kronecker(pool, ones[0], right)]
    return pool.value(added(pool, terms), callee.span)


def conv1d_of_column(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.circulant(c)`: each column is the one before it, moved down by one."""
    return conv1d(body, callee, {"taps": given["column"]})


def sum_of_spaces(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`direct_sum(A, B)`."""
    pool = Pool(body)
    both = _both_sized(pool, callee, given)
    return body.error(callee.span) if both is None else pool.value(direct_sum(pool, *both), callee.span)


def _both_sized(pool: Pool, callee: Callee, given: Given) -> tuple[Kind, Kind] | None:
    left, right = read(pool, given["left"], callee), read(pool, given["right"], callee)
    if left is None or right is None:
        return None
    sized = [require_size(pool.body, tree, given[name], callee) for name, tree in (("left", left), ("right", right))]
    return (left, right) if all(sized) else None


def size_leaf(pool: Pool, value: typed.Expr) -> Leaf | None:
    if isinstance(value.type, IntType):
        return pool.add(value)
    _suggest_sizes(wrong_kind(pool, value, "a size, an int"), value)
    return None


def _suggest_sizes(draft: Draft, value: typed.Expr) -> None:
    """A shape, rows before columns, where the size that goes in stands, and behind it the one that comes out."""
    sizes = [item.value for item in parts(value.type) or () if isinstance(item, IntType)]
    if len(sizes) == 2:
        rows, columns = sizes
        text = str(columns) if rows == columns else f"{columns}, {rows}"
        draft.replace("the size of what goes in, then of what comes out", value.span, text)


def said_dtype(given: Given) -> str:
    """The name of the dtype that is said of an operator without numbers, by itself or in quotes."""
    type_ = given["dtype"].type if "dtype" in given else None
    if isinstance(type_, StrType):
        named = lookup(type_.value)
        return "" if named is None else named.name
    return type_.dtype.name if isinstance(type_, DTypeType) else ""


def has_good_dtype(pool: Pool, given: Given) -> bool:
    """Whether the dtype is one that operators have; None is that of one without numbers, as `A.dtype` tells."""
    if "dtype" not in given or isinstance(given["dtype"].type, NoneType) or said_dtype(given) in SAID:
        return True
    wrong_kind(pool, given["dtype"], f"a dtype of operators: {', '.join(SAID)}")
    return False


def function_leaf(pool: Pool, value: typed.Expr) -> Leaf | None:
    """A function; a struct that can be called is one."""
    value = as_function(pool.body, value)
    own = isinstance(value.type, FunctionType) and value.type.module != BUILT_IN
    if own or isinstance(value.type, TransformType):
        return pool.add(value)
    draft = wrong_kind(pool, value, "a function of a module, or a lambda")
    if isinstance(value.type, FunctionType):
        draft.replace("wrap it", value.span, f"lambda v: {value.type.name}(v)")
    return None


def indices_leaf(pool: Pool, value: typed.Expr) -> Leaf | None:
    """A vector of run-time integers."""
    type_ = value.type
    if isinstance(type_, TensorType) and type_.rank == 1 and type_.dtype.is_integer:
        return pool.add(value)
    suggest_array(pool.body, wrong_kind(pool, value, "a vector of integers, a tensor with one dim"), value)
    return None


_OF_RANK = {
    1: "a vector, a tensor with one dim",
    2: "a matrix, a tensor with two dims",
    3: "blocks, a tensor with three dims",
}


def length_of(pool: Pool, leaf: Leaf) -> Dim:
    type_ = pool.types[leaf.index]
    assert isinstance(type_, TensorType)
    return type_.dims[0]


def tensor_leaf(pool: Pool, value: typed.Expr, rank: int) -> Leaf | None:
    """A tensor of floats or complex numbers."""
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.rank != rank:
        suggest_array(pool.body, wrong_kind(pool, value, _OF_RANK[rank]), value)
    elif not (type_.dtype.is_float or type_.dtype.is_complex) or type_.is_scaled:
        wrong_kind(pool, value, "a tensor of floats or complex numbers")
    else:
        return pool.add(value)
    return None


def wrong_kind(pool: Pool, value: typed.Expr, expected: str) -> Draft:
    return pool.body.sink.error(E0210, at=value.span, expected=expected, found=type_text(value.type))


def flag_value(body: Body, value: typed.Expr | None) -> bool | None:
    if value is None or isinstance(value.type, BoolType):
        return value is not None and isinstance(value.type, BoolType) and value.type.value
    problem = "a promise is True or False, known while compiling"
    refuse_operand(body, Callee("", value.span, value.span), value.span, problem)
    return None
