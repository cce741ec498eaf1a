"""Whether what a kernel gives can depend on the sizes of its blocks.

Enters: the program of a kernel, and what its blocks cut. Leaves: the expressions by which the result would depend on a
block. Values are followed by marks: what reduces or contracts over a block of a loop is a part of the whole, and
the loop may add it to what it carries, or take the largest or smallest; anything else that is made of a part, or of
what is carried before the loop ends, is the block's and not the problem's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.analysis.walking import Find, Mark, Marks, Names, Problem, Walk, leaves, marked
from tesserac.check.model import library_annotations, typed
from tesserac.check.model.kernel_state import Kernel
from tesserac.check.model.scope import FLAG, RETURNED
from tesserac.ops.random import RandomBits
from tesserac.ops.shape import Slice
from tesserac.ops.update import Insert
from tesserac.types.dims import ZERO, Dim
from tesserac.types.ty import IntType, TensorType, parts

PARTS = {"matmul": "sum", "sum": "sum", "max": "max", "min": "min"}
"""What a reduction over a block is a part of."""
JOINS = {"add": "sum", "maximum": "max", "minimum": "min"}
"""What joins parts with what a loop carries."""
SHAPED = ("reshape", "expand", "permute", "squeeze", "unsqueeze")
"""What changes the shape alone."""
MADE = ("zeros", "ones", "full", "empty", "cast", "wide", "stop_gradient", "power", "stochastic_round")
"""What works on every element by itself, or makes it; so does every operator of the family `aligned`."""
BESIDE = ("stack",)
"""What puts its operands side by side along a dim of its own."""
_CARRIED, _PART, _WRONG = "carried ", "part", "wrong"


@dataclass(frozen=True)
class Dependence:
    """An expression whose value depends on a block, and how; `carried` where it reads what a loop has so far."""

    at: Span
    block: str
    how: str
    carried: bool = False


def block_dependences(kernel: Kernel, program: typed.TypedFunction, find: Find) -> list[Dependence]:
    """All dependences on `T.m`, `T.n` or `T.k`, in order; none of a kernel that is block-free."""
    walk = _Blocks(kernel, find)
    for mark in leaves(walk.body(program, {})):
        if mark.problem is not None:
            walk.wrong(mark.problem.at, mark.problem.what, mark.problem.why)
    return walk.found


class _Blocks(Walk):
    def __init__(self, kernel: Kernel, find: Find) -> None:
        super().__init__(find)
        self.found: list[Dependence] = []
        self._kernel = kernel
        self._cut = {kernel.blocks[name].symbol or "": f"T.{name}" for name in ("m", "n", "k")}
        self._dims: Mapping[str, Dim] = {}
        self._turning: list[Dim] = []
        self._at: Span | None = None

    def wrong(self, at: Span, block: str, how: str, carried: bool = False) -> Marks:
        """Notes a dependence, at the line of the kernel where it comes from a function called there."""
        self.found.append(Dependence(self._at or at, block, how, carried))
        return Mark(Problem(at, block, how, kind=_WRONG))

    # ------------------------------------------------------------------------------------------- what is cut

    def _block(self, dim: Dim) -> str:
        """The block that a size is of; a counter of blocks is one of its block. Empty if it is of none."""
        for name in sorted(dim.substitute(self._dims).symbols()):
            counted = self._kernel.counters.get(name)
            if name in self._cut or counted is not None:
                return self._cut.get(name) or self._cut[(counted or ZERO).symbol or ""]
        return ""

    def _drawn(self, op: RandomBits) -> Iterator[Dim]:
        """Sizes of a draw that are no block of this program or of a loop around: an element of any other has its place
        in the problem, by which it is drawn."""
        own = {*self._kernel.own, *self._turning}
        yield from (dim for dim in op.shape if dim.substitute(self._dims) not in own)

    def _is_part(self, block: str) -> bool:
        """Whether a loop around goes over the blocks, and the grid does not."""
        own = {self._kernel.block_name(dim) for dim in self._kernel.own}
        return block not in own and block in [self._block(dim) for dim in self._turning]

    # ------------------------------------------------------------------------------------------- expressions

    def value(self, expression: typed.Expr, names: Names) -> Marks:
        match expression:
            case typed.Apply():
                return self.applied(expression, [self.value(operand, names) for operand in expression.operands])
            case typed.Call():
                return self.called(expression, [self.value(arg, names) for arg in expression.args])
            case typed.Coerce(value=typed.Static(type=IntType(value=number))) if block := self._block(number):
                return self.wrong(expression.span, block, "is used as a number")
            case typed.Conditional(test=test):
                self._decides(test, names)
        return super().value(expression, names)

    def _decides(self, test: typed.Expr, names: Names) -> None:
        for mark in leaves(self.value(test, names)):
            if mark.problem is not None and mark.problem.kind != _WRONG:
                self.wrong(test.span, mark.problem.what, "decides")

    def applied(self, expression: typed.Apply, operands: Sequence[Marks]) -> Marks:
        if expression in self._kernel.reads:
            return None
        name = expression.op.name
        problems = [mark.problem for operand in operands for mark in leaves(operand) if mark.problem is not None]
        sizes = self._drawn(expression.op) if isinstance(expression.op, RandomBits) else _mixed(expression)
        mixed = list(dict.fromkeys(filter(None, map(self._block, sizes))))
        if len(mixed) == 1 and not problems and name in PARTS and self._is_part(mixed[0]):
            return Mark(Problem(expression.span, mixed[0], "is of one block alone", kind=PARTS[name]))
        if mixed:
            *_, mark = (self.wrong(expression.span, block, "works within one block") for block in mixed)
            return mark
        if not problems:
            return None
        kinds = sorted(problem.kind for problem in problems)
        carried = [problem for problem in problems if problem.kind.startswith(_CARRIED)]
        if len(kinds) == len(operands) == 2 and len(carried) == 1 and JOINS.get(name) in kinds:
            return Mark(carried[0])
        if name in SHAPED or set(kinds) == {_PART} or _WRONG in kinds:
            return Mark(next((problem for problem in problems if problem.kind == _WRONG), problems[0]))
        first = (carried or problems)[0]
        how = f"reads {first.why}" if carried else first.why
        return self.wrong(expression.span, first.what, how, carried=bool(carried))

    def called(self, call: typed.Call, args: Sequence[Marks]) -> Marks:
        function = self.find(call.function)
        if function is None:
            return None
        said = self._kernel.said.get(call)
        if said == library_annotations.PARTS and not any(map(leaves, args)):
            return self._parts(call)
        if said == library_annotations.JOINS and (joined := self._joined(call, args)):
            return joined
        return self._inside(call, function, args)

    def _parts(self, call: typed.Call) -> Marks:
        """What a function says are parts of the last dim of its argument."""
        given = call.args[0].type
        assert isinstance(given, TensorType)
        block = self._block(given.dims[-1])
        if block and not self._is_part(block):
            return self.wrong(call.span, block, "works within one block")
        part = Mark(Problem(call.span, block, "is of one block alone", kind=_PART)) if block else None
        return marked(call.type, part, lambda _: True) if part is not None else None

    @staticmethod
    def _joined(call: typed.Call, args: Sequence[Marks]) -> Marks:
        """What a function gives that joins parts with what the loop carries, its first arguments; None where it does
        not."""
        count = len(parts(call.type) or (call.type,))
        kinds = [{mark.problem.kind for mark in leaves(arg) if mark.problem is not None} for arg in args]
        running, others = kinds[:count], kinds[count:]
        carries = all(len(own) == 1 and min(own).startswith(_CARRIED) for own in running)
        return tuple(args[:count]) if carries and all(own <= {_PART} for own in others) else None

    def _inside(self, call: typed.Call, function: typed.TypedFunction, args: Sequence[Marks]) -> Marks:
        """A function that is called works on blocks where its sizes are of them."""
        outer, place = self._dims, self._at
        self._dims = {name: dim.substitute(outer) for name, dim in call.dims}
        self._at = place or call.span
        self._known = {}  # what is known of a function is of other sizes
        marks = self.follow(call, args)
        self._dims, self._at = outer, place
        return marks

    def derived(self, expression: typed.Derivative, names: Names) -> Marks:
        return self.value(expression.value, names)

    # ------------------------------------------------------------------------------------------------- loops

    def _if(self, statement: typed.If, names: Names) -> Marks:
        self._decides(statement.test, names)
        return super()._if(statement, names)

    def _loop(self, loop: typed.For | typed.While, names: Names) -> None:
        block = self._kernel.counters.get(loop.index) if isinstance(loop, typed.For) else None
        if block is None or self._dims:
            super()._loop(loop, names)
            return
        inner, cut = dict(names), self._block(block)
        for carried in loop.carried:
            what = f"`{carried.name}`" if not carried.name.startswith((FLAG, RETURNED)) else "whether to go on"
            text = f"{what} before the loop has ended"
            mark = Mark(Problem(loop.span, cut, text, kind=_CARRIED + carried.name))
            inner[carried.name] = marked(carried.type, mark, lambda part: isinstance(part, TensorType))
        self._turning.append(block)
        self._statements(loop.body, inner)
        self._turning.pop()
        for carried in loop.carried:
            names[carried.name] = self._after(carried, inner.get(carried.name), loop.span, cut)

    def _after(self, carried: typed.Carried, marks: Marks, at: Span, block: str) -> Marks:
        """What a loop carries out: all parts together, if nothing else has changed it."""
        problems = [mark.problem for mark in leaves(marks) if mark.problem is not None]
        if problems and all(problem.kind == _CARRIED + carried.name for problem in problems):
            return None
        if any(problem.kind == _WRONG for problem in problems):
            return marks
        text = f"is all that `{carried.name}` keeps" if not problems else f"replaces `{carried.name}`"
        return self.wrong(problems[0].at if problems else at, block, text)


def _mixed(expression: typed.Apply) -> Iterator[Dim]:
    """The sizes of dims along which an operator joins elements, or tells them apart by where they stand."""
    op = expression.op
    shapes = [operand.type.dims for operand in expression.operands if isinstance(operand.type, TensorType)]
    if op.batching == "aligned" or op.name in (*SHAPED, *MADE, *BESIDE):
        return
    if op.name in ("cut", "insert"):
        yield from _boxed(expression, shapes[0])
    elif op.name == "arange":
        yield from (size for name in ("start", "stop") if (size := getattr(op, name)) is not None)
    elif op.name == "matmul":
        yield shapes[0][-1]
    elif (axes := _axes(op, len(shapes[0]) if shapes else 0)) is not None:
        yield from (dims[axis] for dims in shapes[:1] for axis in axes)
    else:
        yield from (dim for dims in shapes for dim in dims)


def _axes(op: object, rank: int) -> tuple[int, ...] | None:
    """The axes that an operator names; None where it names none."""
    axes = getattr(op, "axes", None)
    axis = getattr(op, "axis", None)
    named = axes if isinstance(axes, tuple) else (axis,) if isinstance(axis, int) else None
    return None if named is None else tuple(place % max(rank, 1) for place in named if isinstance(place, int))


def _boxed(expression: typed.Apply, dims: Sequence[Dim]) -> Iterator[Dim]:
    """Of a box, the dims that it does not span, and where it begins."""
    op, box = expression.op, expression.type if expression.op.name == "cut" else expression.operands[1].type
    assert isinstance(op, Slice | Insert) and isinstance(box, TensorType)
    for start, size, dim in zip(op.starts, box.dims, dims, strict=True):
        if (start, size) != (ZERO, dim):
            yield from (dim, start)
