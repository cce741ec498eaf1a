"""Takes complex tensors apart: each becomes two real ones, of its real and its imaginary parts.

So no later room knows of complex numbers, and no element is ever read with a stride of two. Only arguments and results
keep their type, since callers see them; `form.parts` and `form.complex` stand there. Scalars in the bodies of maps are
taken apart by `complex_scalars.py`; products of many numbers are spelled out by `complex_products.py` first. An
imaginary part that is zero by construction is not computed at all.

Before:
    func.func @f {guards = [], params = ["z"]} {
      ^(%z: tensor<[N], c64>):
        %s = form.reduce(%z) {accum = dtype<c64>, axes = [0], kind = "sum",
                              order = #blocks<block=512, lanes=64>} : tensor<[], c64>
        %r = form.map(%s) {maps = [[]]} : tensor<[], f32> {
          ^(%0: scalar<c64>):
            %1 = scalar.imag(%0) : scalar<f32>
            form.yield(%1)
        }
        func.return(%r)
    }
After:
    func.func @f {guards = [], params = ["z"]} {
      ^(%z: tensor<[N], c64>):
        %p = form.parts(%z) : tensor<[N, 2], f32>
        %b = form.view(%p) {view = #slice<starts=[`0`, `1`], steps=[1, 1]>} : tensor<[N, 1], f32>
        %i = form.view(%b) {view = #broadcast<dims=[0, none]>} : tensor<[N], f32>
        %s = form.reduce(%i) {accum = dtype<f32>, axes = [0], kind = "sum",
                              order = #blocks<block=512, lanes=64>} : tensor<[], f32>
        %r = form.map(%s) {maps = [[]]} : tensor<[], f32> {
          ^(%0: scalar<f32>):
            form.yield(%0)
        }
        func.return(%r)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.graph.built import Unsupported
from tesserac.graph.complex_scalars import Pair, PartsWriter, Scalar
from tesserac.ir.builder import Builder
from tesserac.ir.calls import INVOKE, is_called
from tesserac.ir.core import Attr, Block, Module, Op, Region, Value, clone_op
from tesserac.ir.effects import COMPLEX
from tesserac.ir.forms import Broadcast, Permute, Reshape, Slice, operand_maps, permuted, tensor_type
from tesserac.ir.func import params
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.interleaved import TWO, part_type, parts_type
from tesserac.ir.lines import LINES
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.rewrite import erase_dead
from tesserac.ir.table import roots_of
from tesserac.ir.types import ScalarType, TensorType, Type
from tesserac.ops.lowering import DimMap, View, fill, one_of, side_by_side, view_form
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import DType, component


@pass_(FORMS, FORMS, "split_complex")
def split_complex(module: Module) -> Module:
    for function in module.ops:
        if any(_is_complex(v) for op in function.walk() for v in (*op.results, *_arguments(op))):
            from tesserac.graph.complex_products import is_complex_product, spell_out

            for op in [op for op in function.walk() if is_complex_product(op)]:
                spell_out(op)
            _Splitter().function(function)
    while erase_dead(module):
        pass
    return module


def _arguments(op: Op) -> list[Value]:
    return [arg for region in op.regions for arg in region.block.args]


def _is_complex(value: Value) -> bool:
    return isinstance(value.type, TensorType | ScalarType) and value.type.dtype.is_complex


class _Splitter:
    """`pairs` holds the parts of every complex tensor that was met, `rows` those of numbers whose parts stand in a row
    in memory: arguments, and what is written where the caller reads it; `planes` those that are one behind the
    other."""

    def __init__(self) -> None:
        self.pairs: dict[Value, Pair] = {}
        self.rows: dict[Value, Value] = {}
        self.planes: dict[Value, Value] = {}

    def function(self, function: Op) -> None:
        if is_called(function):
            self._called(function)
            return
        builder = Builder.before(function.body.ops[0])
        for arg in function.body.args:
            if _is_complex(arg):
                whole = builder.value("form.parts", (arg,), parts_type(tensor_type(arg)), hint=arg.name)
                real, imag = (one_of(builder, whole, tensor_type(arg).rank, number) for number in (0, 1))
                self.pairs[arg] = Pair(real, imag)
                self.rows[arg] = whole
        self.block(function.body)
        end = function.body.terminator
        for position, value in enumerate(end.operands):
            if _is_complex(value):
                end.set_operand(position, self._returned(Builder.before(end), value))
        self._remove(function.body)

    def _called(self, function: Op) -> None:
        """What only the module calls takes and gives parts, as what a loop carries."""
        names = [name for arg, name in zip(function.body.args, params(function), strict=True) for _ in _types(arg)]
        (region,) = function.regions
        block = self._region(region)
        function.regions.clear()
        function.regions.append(Region(block))
        function.regions[0].parent = function
        function.attrs["params"] = tuple(names)

    def block(self, block: Block) -> None:
        _join_permutes(block)
        for op in block.ops[:-1]:
            if op.name in _CONTROL:
                self._control(op)
            elif op.name == "form.print":
                self._print(op)
            elif op.name != "form.parts" and any(map(_is_complex, (*op.operands, *op.results))):
                self._split(op)

    def _returned(self, builder: Builder, value: Value) -> Value:
        joined = self.rows.get(value)
        if joined is None:
            joined = side_by_side(builder, self.both(builder, value), tensor_type(value).rank)
        elif not _is_computed(joined):
            joined = _copied(builder, joined)
        return builder.value("form.complex", (joined,), tensor_type(value), hint=value.name)

    def _remove(self, block: Block) -> None:
        """Drops the complex operations, last first, so that none is used when it goes."""
        for op in reversed(list(block.ops)):
            if any(_is_complex(v) for v in op.results) and op.name != "form.complex":
                op.erase()

    def _split(self, op: Op) -> None:
        if op.name not in _RULES:
            raise Unsupported(op.span, f"`{op.name.removeprefix('form.')}` of complex numbers")
        builder = Builder.before(op)
        made = _RULES[op.name](self, builder, op)
        if isinstance(made, Pair):
            for part in (made.real, made.imag):
                if part is not None:
                    part.name = part.name or op.result.name
            self.pairs[op.result] = made
        else:
            op.result.replace_all_uses(made)
            op.erase()

    def both(self, builder: Builder, value: Value) -> tuple[Value, Value]:
        """The two parts of a tensor, a zero one too."""
        pair = self.pairs[value]
        return pair.real, pair.imag if pair.imag is not None else fill(builder, part_type(tensor_type(value)), 0)

    # --------------------------------------------------------------------------------------------------- forms

    def _part_by_part(self, builder: Builder, op: Op) -> Pair:
        """A form that moves or adds elements does the same to each part. If no operand has an imaginary part, then the
        result has none."""
        pairs = [self.pairs.get(v) for v in op.operands]
        attrs = {name: component(attr) if isinstance(attr, DType) else attr for name, attr in op.attrs.items()}
        ty = part_type(tensor_type(op.result))

        def make(operands: Sequence[Value]) -> Value:
            return builder.value(op.name, operands, ty, attrs)

        real = make([v if pair is None else pair.real for v, pair in zip(op.operands, pairs, strict=True)])
        if all(pair is None or pair.imag is None for pair in pairs):
            return Pair(real, None)
        return Pair(real, make([v if v not in self.pairs else self.both(builder, v)[1] for v in op.operands]))

    def _map(self, builder: Builder, op: Op) -> Pair | Value:
        operands: list[Value] = []
        maps: list[DimMap] = []
        block = Block()
        values: dict[Value, Scalar] = {}
        for value, dim_map, arg in zip(op.operands, operand_maps(op), op.body.args, strict=True):
            pair = self.pairs.get(value, Pair(value, None))
            parts = [part for part in (pair.real, pair.imag) if part is not None]
            dtype = component(_scalar(arg).dtype)
            taken = [block.add_arg(ScalarType(dtype), arg.name) for _ in parts]
            operands += parts
            maps += [dim_map] * len(parts)
            read = Pair(taken[0], taken[1] if len(taken) > 1 else None)
            values[arg] = read if value in self.pairs else taken[0]
        writer = PartsWriter(block, values)
        for inner in op.body.ops[:-1]:
            writer.copy(inner)
        yielded = writer[op.body.terminator.operands[0]]
        ty = part_type(tensor_type(op.result))
        if isinstance(yielded, Value):
            return _map_of(builder, op, operands, maps, block, yielded, ty)
        made = [
            None if part is None else _map_of(builder, op, operands, maps, block, part, ty)
            for part in (yielded.real, yielded.imag)
        ]
        assert made[0] is not None
        return Pair(made[0], made[1])

    def _lines(self, builder: Builder, op: Op) -> Pair | Value:
        """Where the numbers go to the caller as they are, their parts are written in a row, as he sees them."""
        from tesserac.graph.complex_lines import split_lines

        in_a_row = _is_returned(op.result)
        whole = split_lines(builder, op, self.pairs, self.rows, in_a_row)
        if not _is_complex(op.result):
            return whole
        (self.rows if in_a_row else self.planes)[op.result] = whole
        axis = tensor_type(op.result).rank if in_a_row else 0
        return Pair(one_of(builder, whole, axis, 0), one_of(builder, whole, axis, 1))

    def _assemble(self, builder: Builder, op: Op) -> Pair:
        """What the caller reads is put together of parts in a row, what is written by planes of both at once."""
        if not _is_returned(op.result):
            make = self._of_planes if set(op.operands) <= set(self.planes) else self._part_by_part
            return make(builder, op)
        result = tensor_type(op.result)
        columns: list[Value] = []
        boxes: list[Slice] = []
        for value, box in zip(op.operands, assembled_boxes(op), strict=True):
            if value in self.rows:
                columns.append(self.rows[value])
                boxes.append(Slice((*box.starts, ZERO), (*box.steps, 1)))
                continue
            for number, part in enumerate(self.both(builder, value)):
                ty = tensor_type(part)
                thin = TensorType((*ty.dims, ONE), ty.dtype, ty.policy)
                columns.append(view_form(builder, part, thin, Broadcast(tuple(range(ty.rank)))))
                boxes.append(Slice((*box.starts, Dim.const(number)), (*box.steps, 1)))
        whole = builder.value(op.name, columns, parts_type(result), {"boxes": tuple(boxes)})
        self.rows[op.result] = whole
        return Pair(one_of(builder, whole, result.rank, 0), one_of(builder, whole, result.rank, 1))

    def _of_planes(self, builder: Builder, op: Op) -> Pair:
        part = part_type(tensor_type(op.result))
        boxes = tuple(Slice((ZERO, *box.starts), (1, *box.steps)) for box in assembled_boxes(op))
        ty = TensorType((TWO, *part.dims), part.dtype, part.policy)
        whole = builder.value(op.name, [self.planes[value] for value in op.operands], ty, {"boxes": boxes})
        self.planes[op.result] = whole
        return Pair(one_of(builder, whole, 0, 0), one_of(builder, whole, 0, 1))

    def _view(self, builder: Builder, op: Op) -> Pair:
        view = _of_rows(op.attrs["view"])
        if op.operands[0] in self.rows and view is not None:
            row = parts_type(tensor_type(op.result))
            self.rows[op.result] = view_form(builder, self.rows[op.operands[0]], row, view)
        return self._part_by_part(builder, op)

    def _table(self, builder: Builder, op: Op) -> Pair:
        table, ty = roots_of(op), part_type(tensor_type(op.result))
        made = [builder.value(op.name, (), ty, {"table": replace(table, parts=(part,))}) for part in table.parts]
        return Pair(*made)

    def _contract(self, builder: Builder, op: Op) -> Pair:
        from tesserac.graph.complex_contract import complex_product

        left, right = (self.pairs[v] for v in op.operands)
        return complex_product(builder, op, left, right, self.rows.get(op.operands[0]))

    def _reduce(self, builder: Builder, op: Op) -> Pair:
        if op.attrs["kind"] != "sum":
            raise Unsupported(op.span, f"`{op.attrs['kind']}` of complex numbers")
        return self._part_by_part(builder, op)

    def _print(self, op: Op) -> None:
        """Complex numbers go to the printer with their parts side by side."""
        pieces, builder = op.attrs["pieces"], Builder.before(op)
        assert isinstance(pieces, tuple)
        shown, told = iter(enumerate(op.operands)), list(pieces)
        for place, piece in enumerate(pieces):
            position, value = next(shown) if isinstance(piece, tuple) else (0, None)
            if isinstance(piece, tuple) and value is not None and _is_complex(value):
                op.set_operand(position, side_by_side(builder, self.both(builder, value), tensor_type(value).rank))
                told[place] = (*piece, COMPLEX)
        op.attrs["pieces"] = tuple(told)

    # ------------------------------------------------------------------------------------------------- control

    def _control(self, op: Op) -> None:
        """What a loop or a branch carries and gives is carried in two parts; an operation without complex values is
        only entered."""
        if not any(map(_is_complex, (*op.operands, *op.results))):
            for region in op.regions:
                self.block(region.block)
                self._yield_parts(region.block)
                self._remove(region.block)
            return
        builder = Builder.before(op)
        operands = self._spread(builder, op.operands)
        blocks = [self._region(region) for region in op.regions]
        types = [ty for v in op.results for ty in _types(v)]
        names = [v.name for v in op.results for _ in _types(v)]
        new = builder.op(op.name, operands, types, op.attrs, blocks, names)
        self._take(op.results, new.results)
        if not any(map(_is_complex, op.results)):
            op.erase()
        else:
            op.regions.clear()

    def _region(self, region: Region) -> Block:
        """The body with its arguments in parts."""
        old = region.block
        new = Block([ty for v in old.args for ty in _types(v)], [v.name for v in old.args for _ in _types(v)])
        self._take(old.args, new.args)
        for op in list(old.ops):
            op.detach()
            new.append(op)
        self.block(new)
        self._yield_parts(new)
        self._remove(new)
        return new

    def _yield_parts(self, block: Block) -> None:
        end = block.terminator
        if any(map(_is_complex, end.operands)):
            end.set_operands(self._spread(Builder.before(end), end.operands))

    def _spread(self, builder: Builder, values: Sequence[Value]) -> list[Value]:
        return [part for v in values for part in (self.both(builder, v) if v in self.pairs else (v,))]

    def _take(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Real values give way to their successors; complex ones are remembered as two of them."""
        left = iter(new)
        for value in old:
            if _is_complex(value):
                self.pairs[value] = Pair(next(left), next(left))
            else:
                value.replace_all_uses(next(left))


def _join_permutes(block: Block) -> None:
    """Numbers that are permuted there and back stand as they stood: whoever writes them may write what is returned."""
    for op in block.ops[:-1]:
        if op.name == "form.view" and isinstance(op.attrs["view"], Permute) and _is_complex(op.result):
            source, order = permuted(op.operands[0])
            order = tuple(order[place] for place in op.attrs["view"].order)
            if order == tuple(range(len(order))) and source.type == op.result.type:
                op.result.replace_all_uses(source)
    for op in reversed(block.ops[:-1]):
        if op.name == "form.view" and _is_complex(op.result) and not op.result.uses:
            op.erase()


def _is_returned(value: Value) -> bool:
    """Whether the caller alone reads a value, in whatever shape."""
    return all(
        user.name == "func.return" or (_keeps_rows(user) and _is_returned(user.result)) for user, _ in value.uses
    )


def _keeps_rows(op: Op) -> bool:
    """Whether numbers whose parts are in a row stay so."""
    return op.attrs.get("view") == Reshape() or op.name == "form.assemble"


def _of_rows(view: Attr) -> View | None:
    """A view of numbers as one of their parts in a row; none where it is not written for that."""
    match view:
        case Slice(starts, steps):
            return Slice((*starts, ZERO), (*steps, 1))
        case Permute(order):
            return Permute((*order, len(order)))
        case Reshape():
            return view
    return None


def _is_computed(value: Value) -> bool:
    """Whether a value is no argument, seen through whatever views."""
    made = value.defining_op
    if made is not None and made.name == "form.view":
        return _is_computed(made.operands[0])
    return made is not None and made.name in (LINES, "form.assemble")


def _copied(builder: Builder, rows: Value) -> Value:
    """What shows an argument, written out as it stands."""
    ty = tensor_type(rows)
    whole = Slice((ZERO,) * ty.rank, (1,) * ty.rank)
    return builder.value("form.assemble", (rows,), ty, {"boxes": (whole,)})


def _scalar(value: Value) -> ScalarType:
    assert isinstance(value.type, ScalarType)
    return value.type


def _types(value: Value) -> list[Type]:
    return [part_type(tensor_type(value))] * 2 if _is_complex(value) else [value.type]


def _map_of(
    builder: Builder,
    op: Op,
    operands: Sequence[Value],
    maps: Sequence[DimMap],
    body: Block,
    part: Value,
    ty: TensorType,
) -> Value:
    """A map that yields one value of `body`, with only the operands and operations that it needs."""
    needed = _needed(part)
    kept = [i for i, arg in enumerate(body.args) if arg in needed]
    block = Block([body.args[i].type for i in kept], [body.args[i].name for i in kept])
    values: dict[Value, Value] = dict(zip((body.args[i] for i in kept), block.args, strict=True))
    for inner in body.ops:
        if inner.result in needed:
            block.append(clone_op(inner, values))
    Builder(block, op.span).op("form.yield", (values[part],))
    attrs: dict[str, Attr] = {"maps": tuple(maps[i] for i in kept)}
    return builder.value("form.map", [operands[i] for i in kept], ty, attrs, (block,), hint=op.result.name)


def _needed(value: Value) -> set[Value]:
    """A scalar and all that it is computed from."""
    found: set[Value] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += value.defining_op.operands if value.defining_op is not None else ()
    return found


_CONTROL = ("form.loop", "form.while", "form.cond", INVOKE)
_RULES: dict[str, Callable[[_Splitter, Builder, Op], Pair | Value]] = {
    "form.map": _Splitter._map,
    LINES: _Splitter._lines,
    "form.table": _Splitter._table,
    "form.view": _Splitter._view,
    "form.assemble": _Splitter._assemble,
    "form.gather": _Splitter._part_by_part,
    "form.scatter": _Splitter._part_by_part,
    "form.reduce": _Splitter._reduce,
    "form.scan": _Splitter._reduce,
    "form.runs": _Splitter._reduce,
    "form.contract": _Splitter._contract,
}
