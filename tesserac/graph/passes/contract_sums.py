"""Sums of products are contractions, however they are written.

    sum(a[:, :, None] * b[None, :, :], axis=1)      einsum("ab,bc->ac", a, b)
    mean(x @ a, axis=0)                             einsum("abc,cd->bd", x, a) / B, which sums x first

The tensor of all products is not made. Products each of whose factors has all dims are read once, and stay. It is done
before functions are mapped: a batch of sums is computed as each of them is alone.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "y"]} {
      ^(%x: tensor<[B, M, K], f32>, %y: tensor<[B, K, N], f32>):
        %0 = graph.matmul(%x, %y) : tensor<[B, M, N], f32>
        %1 = graph.sum(%0) {axes = [2], keep = false} : tensor<[B, M], f32>
        graph.return(%1)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x", "y"]} {
      ^(%x: tensor<[B, M, K], f32>, %y: tensor<[B, K, N], f32>):
        %0 = graph.einsum(%x, %y) {equation = "abd,adc->ab"} : tensor<[B, M], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_lowercase

from tesserac.base.dataclass import dataclass
from tesserac.graph.algebra.applications import Spared
from tesserac.graph.algebra.reading_folds import NOT_NARROW, same_element
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import NUMERICS, PREFIX, operator_of
from tesserac.graph.passes.algebra import kernels_of
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ops.einsum import Einsum
from tesserac.ops.reduce import Mean, Sum
from tesserac.types.dims import ONE, Dim, product

MUL, MATMUL, EINSUM = PREFIX + "mul", PREFIX + "matmul", PREFIX + "einsum"
SUMS = (PREFIX + Sum.name, PREFIX + Mean.name)
FEWEST_DIMS, MOST_FACTORS = 3, 6
"""Of matrices the laws know more."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A tensor, and the letter of each of its dims."""

    value: Value
    letters: str


Observe = Callable[[Spared], None]


@pass_(GRAPH, GRAPH, "contract_sums")
def contract_sums(module: Module) -> Module:
    return as_contractions(module, None)


def as_contractions(module: Module, observe: Observe | None) -> Module:
    """The pass; `observe` is told of every sum that is one."""
    kernels = kernels_of(module)
    for function in module.ops:
        if function.symbol not in kernels:
            _contract_sums(function, observe)
    return module


def _contract_sums(function: Op, observe: Observe | None) -> None:
    for op in [op for op in function.walk() if op.name in SUMS]:
        if op.parent is not None and (equation := _contract(op)) is not None and observe is not None:
            written = f"{op.name.removeprefix(PREFIX)} of a product"
            observe(Spared(function.symbol, op, written, f'a sum of products is a contraction: einsum("{equation}")'))


def _contract(op: Op) -> str | None:
    value, operator = op.operands[0], operator_of(op)
    assert isinstance(operator, Sum | Mean)
    ty = tensor_type(value)
    if ty.rank < FEWEST_DIMS or ty.dtype.bits < NOT_NARROW or not same_element(op, value) or ONE in ty.dims:
        return None
    factors = _factors(value, ascii_lowercase[: ty.rank], op)
    if not factors or len(factors) > MOST_FACTORS:
        return None
    output = "".join(letter for axis, letter in enumerate(ascii_lowercase[: ty.rank]) if axis not in operator.axes)
    equation = f"{','.join(factor.letters for factor in factors)}->{output}"
    mode = op.attrs.get(NUMERICS)
    write = writer(Builder.before(op), {} if mode is None else {NUMERICS: mode})
    found = write("einsum", *(factor.value for factor in factors), equation=equation)
    if isinstance(operator, Mean):
        count = product(ty.dims[axis] for axis in operator.axes)
        found = write("div", found, write.size(count, tensor_type(found)))
    found = write.reshape(found, tensor_type(op.result).dims)
    found.name = found.name or op.result.name
    op.result.replace_all_uses(found)
    _erase(op)
    return equation


def _erase(op: Op) -> None:
    waiting = [op]
    while waiting:
        unused = waiting.pop()
        if unused.parent is not None and not any(v.uses for v in unused.results) and unused.opdef.pure:
            waiting += [v.defining_op for v in unused.operands if v.defining_op is not None]
            unused.erase()


def _factors(value: Value, letters: str, user: Op) -> Sequence[Factor]:
    """What is multiplied to give a tensor that one operation alone needs; nothing where that is no contraction."""
    op = value.defining_op
    if op is None or op.name not in _FACTORS or len(value.uses) > 1 or op.parent is not user.parent:
        return ()
    if op.attrs.get(NUMERICS) != user.attrs.get(NUMERICS) or not same_element(op, *op.operands):
        return ()
    return _FACTORS[op.name](op, letters)


def _spread_factors(op: Op, letters: str) -> Sequence[Factor]:
    """Of a product of elements, in which every factor is spread over some dims."""
    dims, found = tensor_type(op.result).dims, list[Factor]()
    waiting = list(reversed(op.operands))
    while waiting and len(found) <= MOST_FACTORS:
        value = waiting.pop()
        made = value.defining_op
        if made is not None and made.name == MUL and len(value.uses) == 1 and same_element(made, *made.operands):
            waiting += reversed(made.operands)
            continue
        factor = _spread(value, dims, letters)
        if factor is None or len(factor.letters) == len(letters):
            return ()
        found.append(factor)
    named = {letter for factor in found for letter in factor.letters}
    return found if not waiting and len(named) == len(letters) else ()


def _spread(value: Value, dims: Sequence[Dim], letters: str) -> Factor | None:
    """A tensor that is spread over dims that it has not, behind reshapes that add dims of one element."""
    kept = _kept(value, dims, letters)
    while (op := value.defining_op) is not None and op.name in (PREFIX + "reshape", PREFIX + "expand"):
        inner = tensor_type(op.operands[0]).dims
        if op.name == PREFIX + "expand":
            kept = _kept(op.operands[0], dims, letters)
        elif ONE in inner or inner != tuple(dim for dim in tensor_type(value).dims if dim != ONE):
            break
        value = op.operands[0]
    if kept is None or ONE in tensor_type(value).dims or len(kept) != tensor_type(value).rank:
        return None
    return Factor(value, kept)


def _kept(value: Value, dims: Sequence[Dim], letters: str) -> str | None:
    """The letters of the dims in which a tensor has more than one element; its last dim is the last of all."""
    own = tensor_type(value).dims
    start = len(dims) - len(own)
    if start < 0 or any(dim not in (ONE, dims[start + axis]) for axis, dim in enumerate(own)):
        return None
    return "".join(letters[start + axis] for axis, dim in enumerate(own) if dim != ONE)


def _product_factors(op: Op, letters: str) -> Sequence[Factor]:
    """Of a product of batches of matrices, in which each batch has all elements, or there is one matrix for all."""
    summed = ascii_lowercase[len(letters)]
    batch, dims = letters[:-2], tensor_type(op.result).dims
    found = []
    for value, own in zip(op.operands, (letters[-2] + summed, summed + letters[-1]), strict=True):
        ty = tensor_type(value)
        has_batch = ty.dims[:-2] == dims[:-2]
        if ty.rank < 2 or not (has_batch or ty.rank == 2):
            return ()
        found.append(Factor(value, batch + own if has_batch and ty.rank > 2 else own))
    return found


def _einsum_factors(op: Op, letters: str) -> Sequence[Factor]:
    """Of a contraction: its own letters, the ones of its result renamed."""
    operator = operator_of(op)
    assert isinstance(operator, Einsum)
    if len(operator.terms) < 2:
        return ()
    names = dict(zip(operator.output, letters, strict=True))
    for letter in "".join(operator.terms):
        names.setdefault(letter, ascii_lowercase[len(names)])
    terms = ("".join(names[letter] for letter in term) for term in operator.terms)
    return [Factor(value, term) for value, term in zip(op.operands, terms, strict=True)]


_FACTORS = {MUL: _spread_factors, MATMUL: _product_factors, EINSUM: _einsum_factors}
