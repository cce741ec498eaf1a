"""What a program writes out and the library computes in another way becomes what computes it: laws.

Enters: a module without calls, in which patterns that are laws say what is written and, as their alternatives, what
computes it. Leaves: the latter wherever the former stands, in one spelling or another (`matching.py`), and no laws. It
is decided before derivatives are taken, which are those of what is computed, and by the program alone. What is also
read elsewhere stays as it is written.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "y"]} {
      ^(%x: tensor<[M, K], f32>, %y: tensor<[N, K], f32>):
        %0 = graph.einsum(%x, %y) {equation = "mk,nk->mn"} : tensor<[M, N], f32>
        graph.return(%0)
    }
    graph.func @law {
          alternatives = [#alternative<kernel="by", symbol="by", target="", rewrite=true, guards=[], why="">],
          entry = false, guards = [], law = true, params = ["a", "b"], pattern = "a @ b"} {
      ^(%a: tensor<[S, D], f32>, %b: tensor<[D, T], f32>):
        %0 = graph.matmul(%a, %b) : tensor<[S, T], f32>
        graph.return(%0)
    }
    graph.func @by {entry = false, guards = [], params = ["a", "b"]} {
      ^(%a: tensor<[S, D], f32>, %b: tensor<[D, T], f32>):
        %0 = graph.matmul(%a, %b) : tensor<[S, T], f32>
        %1 = graph.exp(%0) : tensor<[S, T], f32>
        graph.return(%1)
    }
After:
    graph.func @f {
          chosen = [["a @ b", "by", true, "it is within its tolerance"]], entry = true, guards = [],
          params = ["x", "y"]} {
      ^(%x: tensor<[M, K], f32>, %y: tensor<[N, K], f32>):
        %0 = graph.permute(%y) {order = [1, 0]} : tensor<[K, N], f32>
        %1 = graph.matmul(%x, %0) : tensor<[M, N], f32>
        %2 = graph.exp(%1) : tensor<[M, N], f32>
        graph.return(%2)
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.dialect import ALTERNATIVES, KERNEL_CALL, LAW, MEANS, PATTERN, PREFIX, alternatives_of
from tesserac.graph.matching import Match, spelt
from tesserac.graph.passes.inline import erase_unreached
from tesserac.graph.passes.match_kernels import is_expression, take_rewrite
from tesserac.graph.products import SPELLINGS, Product, as_product, permuted
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Module, Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ops.einsum import Einsum

EINSUM = f"{PREFIX}{Einsum.name}"


@pass_(GRAPH, GRAPH, "apply_laws")
def apply_laws(module: Module) -> Module:
    laws = [function for function in module.ops if LAW in function.attrs]
    if not laws:
        return module
    for law in laws:
        law.attrs[MEANS] = law.attrs.pop(PATTERN)
    sides = {law.symbol for law in laws} | {way.symbol for law in laws for way in alternatives_of(law)}
    patterns = [law for law in laws if is_expression(law)]
    roots = {*SPELLINGS, *(_root(law) for law in patterns)}
    for function in [f for f in module.ops if f.symbol not in sides]:
        for op in [op for op in function.walk() if op.name in roots]:
            if op.parent is not None:
                _apply(module, function, op, patterns)
    for law in laws:
        del law.attrs[ALTERNATIVES]
    erase_unreached(module)
    order_effects(module)
    return module


def as_written(module: Module) -> Module:
    """A copy without laws, for people: what the program itself says and calls."""
    copy = module.clone()
    for law in [function for function in copy.ops if LAW in function.attrs]:
        law.erase()
    erase_unreached(copy)
    return copy


def _root(pattern: Op) -> str:
    op = pattern.body.terminator.operands[0].defining_op
    assert op is not None, "a pattern is an expression"
    return op.name


def _apply(module: Module, function: Op, op: Op, patterns: Sequence[Op]) -> None:
    """What an operation is by the first law that fits."""
    assert op.parent is not None
    block, before = op.parent, set(op.parent.ops)
    as_matrices, as_written = _as_product(op), _as_it_is(op)
    for pattern in patterns:
        product = as_written if op.name == _root(pattern) == EINSUM else as_matrices
        found = spelt(pattern, op, product.value)
        if found is None:
            continue
        found.ops += [op] if product.value is not op.result else []
        read = {value.defining_op for value in found.arguments(pattern)}
        _sweep([made for made in block.ops if made not in before and made not in {*found.ops, *read}])
        if not found.is_read_elsewhere(op):
            take_rewrite(module, function, _call(op, product, pattern, found), pattern)
            return
    _sweep([made for made in block.ops if made not in before])


def _as_product(op: Op) -> Product:
    """The operation as a product of matrices, which may be itself."""
    return as_product(Builder.before(op), op) or _as_it_is(op)


def _as_it_is(op: Op) -> Product:
    return Product(op.result, tuple(range(tensor_type(op.result).rank)))


def _call(op: Op, product: Product, pattern: Op, found: Match) -> Op:
    """The call of a law in the place of what it covers."""
    attrs: dict[str, Attr] = {"callee": pattern.symbol, "dims": tuple(sorted(found.dims.items()))}
    builder = Builder.before(op)
    types = [product.value.type]
    call = builder.op(KERNEL_CALL, found.arguments(pattern), types, attrs, (), [op.result.name])
    op.result.replace_all_uses(permuted(builder, call.result, product.order))
    for inner in reversed(found.ops):
        inner.erase()
    return call


def _sweep(made: Sequence[Op]) -> None:
    """Views that were made and that nobody reads go."""
    for op in reversed(made):
        if op.parent is not None and not op.result.uses:
            op.erase()
