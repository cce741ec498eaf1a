"""Takes reindexing and constants into the forms that read them, where it costs nothing.

A map reads through a permutation or broadcast by changing its index map, and computes a constant in its body. A
contraction reads through a permutation by changing its indices; on the left only while it sums one index, since the
order of several is the left operand's. One whose result is only read permuted gives it in that order.

Before:
    func.func @f {guards = [], params = ["x", "m"]} {
      ^(%x: tensor<[M, N], f32>, %m: tensor<[M], f32>):
        %c = form.map() {maps = []} : tensor<[], f32> {
          ^():
            %0 = scalar.constant() {value = 2.0} : scalar<f32>
            form.yield(%0)
        }
        %w = form.view(%m) {view = #broadcast<dims=[0]>} : tensor<[M, 1], f32>
        %y = form.map(%x, %w, %c) {maps = [[0, 1], [0, none], []]} : tensor<[M, N], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>, %3: scalar<f32>):
            %4 = scalar.fma(%1, %2, %3) : scalar<f32>
            form.yield(%4)
        }
        func.return(%y)
    }
After:
    func.func @f {guards = [], params = ["x", "m"]} {
      ^(%x: tensor<[M, N], f32>, %m: tensor<[M], f32>):
        %y = form.map(%x, %m) {maps = [[0, 1], [0]]} : tensor<[M, N], f32> {
          ^(%1: scalar<f32>, %2: scalar<f32>):
            %3 = scalar.constant() {value = 2.0} : scalar<f32>
            %4 = scalar.fma(%1, %2, %3) : scalar<f32>
            form.yield(%4)
        }
        func.return(%y)
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Attr, Block, Module, Op, Region, Value, clone_op
from tesserac.ir.forms import Broadcast, Permute, contracted, indices, operand_maps, tensor_type
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.rewrite import Rewriter, at, erase_dead, rewrite
from tesserac.ir.types import TensorType
from tesserac.ops.lowering import DimMap, Scalars
from tesserac.types.policy import compute_dtype

SHORT = 8
"""Scalar operations, the yield among them, that a constant may cost at each of its readers."""


@pass_(FORMS, FORMS, "fold_views")
def fold_views(module: Module) -> Module:
    rewrite(
        module,
        (
            map_reads_through_view,
            map_computes_constant,
            contraction_reads_through_permutation,
            contraction_gives_what_a_view_shows,
            contraction_gives_what_a_map_reads,
        ),
    )
    while erase_dead(module):
        pass
    return module


@at("form.map")
def map_reads_through_view(op: Op, rewriter: Rewriter) -> bool:
    maps = list(operand_maps(op))
    for position, operand in enumerate(op.operands):
        source, through = _through_view(operand, maps[position])
        if source is not operand:
            source.name = source.name or operand.name
            op.set_operand(position, source)
            maps[position] = through
            op.attrs["maps"] = tuple(maps)
            return True
    return False


def _through_view(value: Value, dim_map: DimMap) -> tuple[Value, DimMap]:
    """The value that a view shows, and where its dims go when the view's go where `dim_map` says."""
    op = value.defining_op
    if op is None or op.name != "form.view":
        return value, dim_map
    view = op.attrs["view"]
    if isinstance(view, Permute):
        return op.operands[0], tuple(dim_map[view.order.index(i)] for i in range(len(dim_map)))
    if isinstance(view, Broadcast):
        return op.operands[0], tuple(None if d is None else dim_map[d] for d in view.dims)
    return value, dim_map


@at("form.map")
def map_computes_constant(op: Op, rewriter: Rewriter) -> bool:
    for position, operand in enumerate(op.operands):
        maker = operand.defining_op
        if maker is not None and _is_constant(maker) and _is_cheap(maker):
            _replace_map(op, rewriter, position, maker)
            return True
    return False


def _is_constant(op: Op) -> bool:
    """A map without operands whose body does not ask where it is."""
    return op.name == "form.map" and not op.operands and all(inner.name != "scalar.index" for inner in op.walk())


def _is_cheap(op: Op) -> bool:
    """A long body goes to its only reader, not to several: in a recurrence of constants, whose steps read the two
    before them, copies of copies would grow as Fibonacci's numbers do."""
    return len(op.body.ops) <= SHORT or len(op.result.uses) == 1


def _replace_map(op: Op, rewriter: Rewriter, position: int, maker: Op) -> None:
    """The map without that operand; its body begins with the body of the constant, rounded as it was stored."""
    builder = rewriter.builder(op)
    keep = [i for i in range(len(op.operands)) if i != position]
    block = Block([op.body.args[i].type for i in keep], [op.body.args[i].name for i in keep])
    values: dict[Value, Value] = dict(zip((op.body.args[i] for i in keep), block.args, strict=True))
    for inner in maker.body.ops[:-1]:
        block.append(clone_op(inner, values))
    constant = values[maker.body.terminator.operands[0]]
    stored = tensor_type(maker.result)
    if stored.dtype != compute_dtype(stored.dtype, stored.policy):
        with builder.at(block):
            constant = Scalars(builder).round(constant, stored)
    values[op.body.args[position]] = constant
    for inner in op.body.ops:
        block.append(clone_op(inner, values))
    maps = operand_maps(op)
    attrs: dict[str, Attr] = {**op.attrs, "maps": tuple(maps[i] for i in keep)}
    new = Op(
        op.opdef, [op.operands[i] for i in keep], [op.result.type], attrs, [Region(block)], op.span, [op.result.name]
    )
    assert op.parent is not None
    op.parent.insert(op.parent.place(op), new)
    rewriter.replace(op, new.results)


@at("form.contract")
def contraction_reads_through_permutation(op: Op, rewriter: Rewriter) -> bool:
    for position, name in enumerate(("lhs", "rhs")):
        maker = op.operands[position].defining_op
        if maker is None or maker.name != "form.view":
            continue
        view = maker.attrs["view"]
        if isinstance(view, Permute) and (name == "rhs" or len(contracted(op)) <= 1):
            own = indices(op, name)
            op.attrs[name] = tuple(own[view.order.index(i)] for i in range(len(own)))
            op.set_operand(position, maker.operands[0])
            return True
    return False


@at("form.view")
def contraction_gives_what_a_view_shows(op: Op, rewriter: Rewriter) -> bool:
    view = op.attrs["view"]
    if not isinstance(view, Permute) or not _is_read_once(op.operands[0]):
        return False
    _give_in_order(op.operands[0], view.order)
    rewriter.replace(op, op.operands)
    return True


@at("form.map")
def contraction_gives_what_a_map_reads(op: Op, rewriter: Rewriter) -> bool:
    maps = list(operand_maps(op))
    for position, (operand, places) in enumerate(zip(op.operands, maps, strict=True)):
        known = [place for place in places if place is not None]
        if len(known) == len(places) and known != sorted(known) and _is_read_once(operand):
            _give_in_order(operand, sorted(range(len(known)), key=known.__getitem__))
            maps[position] = tuple(sorted(known))
            op.attrs["maps"] = tuple(maps)
            return True
    return False


def _is_read_once(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name == "form.contract" and len(value.uses) == 1


def _give_in_order(result: Value, order: Sequence[int]) -> None:
    """Has a contraction give its result with the dims permuted; its only reader knows."""
    contract, ty = result.defining_op, tensor_type(result)
    assert contract is not None
    out = indices(contract, "out")
    contract.attrs["out"] = tuple(out[i] for i in order)
    result.type = TensorType(tuple(ty.dims[i] for i in order), ty.dtype, ty.policy)
