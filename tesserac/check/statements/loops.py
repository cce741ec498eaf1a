"""Loops: `for` over a range, `for` over a tuple, `while`.

Enters: a loop of the syntax tree. Leaves: a typed loop with the names it carries, each with the one type it has at
every iteration; a tuple is unrolled. A name bound only inside has no value afterwards, since there may be no iteration.
A `break` raises a flag that the iterations after it, or the condition, look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.analysis.unasked import may_end
from tesserac.check.analysis.uniformity import require_uniformity
from tesserac.check.guards.assumed import assuming, relies_on
from tesserac.check.kernels.block_ranges import is_block_range, read_block_range
from tesserac.check.model import typed
from tesserac.check.model.control import assigned_names, holds_break
from tesserac.check.model.kernel_state import Part
from tesserac.check.model.scope import FLAG, HIDDEN, Binding, Lost, Pinned
from tesserac.check.operators.apply import apply_operator
from tesserac.check.places.assignment import assign, bind, kept_type
from tesserac.check.places.growing_lists import written_zeros
from tesserac.check.places.iteration import (
    RunBounds,
    is_range,
    not_iterable,
    range_bounds,
    refuse_reversed,
    written_out,
)
from tesserac.check.places.update_calls import update_place
from tesserac.check.state.body import Body, is_static
from tesserac.check.state.evaluation import apart
from tesserac.check.state.parts import Counter
from tesserac.check.state.trials import risen, undo_of
from tesserac.check.statements.branches import join
from tesserac.check.statements.tensor_rows import report_rows
from tesserac.check.transforms.checkpoints import memory_of_run, memory_of_sizes
from tesserac.check.values.common_types import converted, meet
from tesserac.check.values.conditions import require_condition
from tesserac.check.values.generic_items import any_item, quietly
from tesserac.diag.codes.effects import E0606
from tesserac.ops.compare import BitAnd, BitNot, Less, NotEqual
from tesserac.ops.convert import Cast
from tesserac.ops.elementwise import Add, FloorDiv, Mul, Neg, Sub
from tesserac.syntax import ast
from tesserac.syntax.walk import is_broken
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import BOOL, I64
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    IntType,
    OperatorType,
    RunIntType,
    TensorType,
    Type,
    open_floats,
    parts,
)


def check_loop(body: Body, node: ast.For | ast.While) -> list[typed.Stmt]:
    """A loop, with what is known before it; and again, as long as an iteration tells that a number, or one in front of
    an operator, starts further up."""
    head = _head(node)
    while True:
        undo = undo_of(body) if _may_rise(body, node) else None
        block = _check_for(body, node) if isinstance(node, ast.For) else _check_while(body, node)
        _bind_unknown(body, body.flow.changed & body.scope.bindings.keys(), head)
        if undo is None or head not in body.flow.rises.again:
            return block
        body.flow.rises.again.discard(head)
        undo()


def _head(node: ast.For | ast.While) -> Span:
    """What stands between `for` or `while` and the colon."""
    return node.target.span.to(node.iterable.span) if isinstance(node, ast.For) else node.test.span


def _may_rise(body: Body, node: ast.For | ast.While) -> bool:
    """Whether a name that is bound in the loop holds a number before it that has no dtype, or an operator."""
    bindings = map(body.scope.bindings.get, _assigned(body, node.body))
    return any(_rises(binding.type) for binding in bindings if binding is not None)


def _rises(type_: Type) -> bool:
    own = isinstance(type_, IntType | RunIntType | FloatType | BoolType | OperatorType)
    return own or any(map(_rises, parts(type_) or ()))


def _assigned(body: Body, statements: tuple[ast.Stmt, ...]) -> list[str]:
    return assigned_names(statements, lambda node: update_place(body, node))


def _check_for(body: Body, node: ast.For) -> list[typed.Stmt]:
    if is_range(body, node.iterable) and isinstance(node.target, ast.Name):
        assert isinstance(node.iterable, ast.Call)
        return _range_loop(body, node, node.target, node.iterable)
    if is_block_range(body, node.iterable) and isinstance(node.target, ast.Name):
        assert isinstance(node.iterable, ast.Call)
        return _block_loop(body, node, node.target, node.iterable)
    if refuse_reversed(body, node.iterable) or report_rows(body, node):
        body.error(node.iterable.span)
        _bind_unknown(body, _assigned(body, (node,)), node.target.span)
        return []
    items = body.expression(node.iterable)
    known = written_out(items, node.target.span)
    if known is not None:
        return _unrolled(body, node, known)
    item = any_item(body, items, node.target.span)
    if item is not None:
        _any_iterations(body, node, item)
    else:
        not_iterable(body, items)
        _bind_unknown(body, _assigned(body, (node,)), node.target.span)
    return []


def _unrolled(body: Body, node: ast.For, items: Sequence[typed.Expr]) -> list[typed.Stmt]:
    """A loop over a tuple is its body once per item, up to a `break` that is known to be taken."""
    flag, path = _open_flag(body, node.body), body.flow.path
    block: list[typed.Stmt] = []
    if flag:
        body.scope.bind(Binding(flag, BoolType(False), node.span, None))
    for iteration, item in enumerate(items):
        raised = body.scope.bindings[flag].type if flag else BoolType(False)
        if raised == BoolType(True):
            break
        body.flow.path = (*path, iteration)
        block += assign(body, node.target, item, node.span)
        if isinstance(raised, BoolType):
            block += _iteration(body, node.body)
        else:
            block.append(_unless(body, flag, node.body, node.span))
    body.flow.path = path
    _close_flag(body, flag)
    return block


def _any_iterations(body: Body, node: ast.For, item: typed.Expr) -> None:
    """A loop over a list whose length only a call knows: one iteration is checked for all of them. Since a call writes
    it out, a name may have another type at every iteration: of such a name nothing is known from the second iteration
    on."""
    names, unknown, before = _assigned(body, (node,)), set[str](), body.scope.snapshot()
    _any_iteration(body, node, item)
    while changed := {name for name in names if _changes(before.bindings.get(name), body, name)} - unknown:
        unknown |= changed
        body.scope = before.snapshot()
        _bind_unknown(body, unknown, node.target.span)
        with quietly(body):
            _any_iteration(body, node, item)
    _bind_unknown(body, unknown, node.target.span)


def _any_iteration(body: Body, node: ast.For, item: typed.Expr) -> None:
    flag, path = _open_flag(body, node.body), body.flow.path
    if flag:
        body.scope.bind(Binding(flag, BoolType(False), node.span, None))
    body.flow.path = (*path, 0)
    assign(body, node.target, item, node.span)
    _iteration(body, node.body)
    body.flow.path = path
    _close_flag(body, flag)


def _changes(before: Binding | None, body: Body, name: str) -> bool:
    after = body.scope.bindings.get(name)
    return before is not None and (after is None or after.type != before.type)


def _bind_unknown(body: Body, names: Iterable[str], span: Span) -> None:
    for name in names:
        body.scope.bind(Binding(name, ErrorType(), span, None))


# ---------------------------------------------------------------------------------------------------- `break`


def _open_flag(body: Body, statements: Sequence[ast.Stmt]) -> str:
    """The name of a loop's flag, which its `break` raises; empty for a loop without one."""
    body.flow.flags.append(f"{FLAG}{len(body.flow.flags)}" if holds_break(statements) else "")
    return body.flow.flags[-1]


def _close_flag(body: Body, flag: str) -> None:
    body.flow.flags.pop()
    body.scope.bindings.pop(flag, None)


def raise_flag(body: Body, node: ast.Break) -> list[typed.Stmt]:
    """`break`: known while compiling in a loop that is written out, a value of the run in any other."""
    flag, raised = "".join(body.flow.flags[-1:]), typed.Static(BoolType(True), node.span)
    if flag not in body.scope.bindings:
        return []  # outside a loop, which is told where it is read
    if isinstance(body.scope.bindings[flag].type, TensorType):
        return bind(body, flag, node.span, typed.Coerce(_ONE_BOOL, node.span, raised), node.span)
    return bind(body, flag, node.span, raised, node.span)


def _lower_flag(body: Body, flag: str, span: Span) -> list[typed.Stmt]:
    """The flag before a loop of the run."""
    lowered = typed.Static(BoolType(False), span)
    return bind(body, flag, span, typed.Coerce(_ONE_BOOL, span, lowered), span) if flag else []


def _is_down(body: Body, flag: str, span: Span) -> typed.Expr:
    return typed.Apply(_ONE_BOOL, span, BitNot(), (body.local(flag, span),))


def _unless(body: Body, flag: str, statements: tuple[ast.Stmt, ...], span: Span) -> typed.If:
    """An iteration that is skipped once the flag is up."""
    test, before = _is_down(body, flag, span), body.scope
    first, checked = len(body.devices.meetings), body.sizes.checked
    body.scope = before.snapshot()
    with assuming(body, test, holds=True):
        block = _iteration(body, statements)
    require_uniformity(body, first, test)
    scopes = [body.scope, before.snapshot()]
    body.scope = before
    return join(body, test, [block, ()], scopes, span, sized=relies_on(body, test, checked))


_ONE_BOOL = TensorType((), BOOL)


def _range_loop(body: Body, node: ast.For, target: ast.Name, call: ast.Call) -> list[typed.Stmt]:
    bounds = range_bounds(body, call)
    if bounds is None:
        _bind_unknown(body, _assigned(body, (node,)), target.span)
        return []
    if isinstance(bounds, RunBounds):
        return _counted_by_run(body, node, target, bounds)
    return _counted(body, node, target, bounds, call)


def _block_loop(body: Body, node: ast.For, target: ast.Name, call: ast.Call) -> list[typed.Stmt]:
    """A loop over blocks has one iteration: a block spans its dim, see Note [One block spans its dim] in `programs.py`;
    one over blocks that the kernel means has an iteration for each."""
    found, kernel = read_block_range(body, call), body.kernel
    if found is None or kernel is None:
        return []
    block, given = found
    counter = _index_symbol(body, target.id)
    kernel.counters[counter] = block
    over = kernel.cuts[block].size
    count = over.ceil_div(kernel.meant[block]) if block in kernel.meant else ONE
    names = {name: f"{HIDDEN}{node.span.start}.{name}" for name in given}
    # what the bounds are when the loop begins: its body may bind the names in them again
    bound = [s for name, value in given.items() for s in bind(body, names[name], value.span, value, value.span)]
    ends = {name: body.local(names[name], value.span) for name, value in given.items()}
    with kernel.over(counter, Part(**ends) if ends else None):
        *before, loop = _counted(body, node, target, (ZERO, count, 1), call)
    for name in names.values():
        body.scope.bindings.pop(name)
    assert isinstance(loop, typed.For)
    return [*bound, *before, replace(loop, cut=typed.Cut(block, over))]


def _counted(
    body: Body, node: ast.For, target: ast.Name, bounds: tuple[Dim, Dim, int], call: ast.Call
) -> list[typed.Stmt]:
    (start, stop, step), symbol = bounds, _index_symbol(body, target.id)
    flag = _open_flag(body, node.body)
    lowered = _lower_flag(body, flag, node.span)
    loop = _enter(body, node.body, _head(node), (), target.id)
    body.scope.bind(Binding(target.id, IntType(Dim.sym(symbol)), target.span, None))
    with body.facts.within(symbol, start, stop, step):
        if flag:
            block: typed.Block = (_unless(body, flag, node.body, node.span),)
        else:
            written = tuple(each.value.span for each in call.arguments[:2])
            block = _iteration(body, node.body, Counter(target.id, *bounds, written))
    results = _leave(body, loop)
    _close_flag(body, flag)
    first, end = (typed.Static(IntType(bound), call.span) for bound in (start, stop))
    memory = memory_of_sizes(body, node.span)
    return [*loop.begun, *lowered, typed.For(node.span, symbol, first, end, step, block, results, memory)]


def _counted_by_run(body: Body, node: ast.For, target: ast.Name, bounds: RunBounds) -> list[typed.Stmt]:
    """A loop whose trip count is a tensor: a `while` that counts its iterations, in i64, so that no bound overflows."""
    span, counter, trips = node.span, f"{HIDDEN}{node.span.start}", f"{HIDDEN}{node.span.start}.trips"
    block = _count_trips(body, bounds, counter, trips, node.iterable.span)
    flag = _open_flag(body, node.body)
    block += _lower_flag(body, flag, span)
    loop = _enter(body, node.body, _head(node), (counter,), target.id)
    test = apply_operator(body, Less(), [body.local(counter, span), body.local(trips, span)], span, span)
    test = _both(_is_down(body, flag, span), test) if flag else test
    first, iteration = len(body.devices.meetings), _next_index(body, bounds, target, counter, span)
    with assuming(body, test, holds=True):
        iteration += _iteration(body, node.body)
    one = typed.Static(IntType(ONE), span)
    more = apply_operator(body, Add(), [body.local(counter, span), one], span, span)
    iteration += bind(body, counter, span, more, span)
    require_uniformity(body, first, replace(test, span=node.iterable.span), ends=body.scope.bindings)
    results = _leave(body, loop)
    _close_flag(body, flag)
    for name in (counter, trips):
        body.scope.bindings.pop(name)
    return [*loop.begun, *block, typed.While(span, test, tuple(iteration), results, memory_of_run(body, span))]


def _count_trips(body: Body, bounds: RunBounds, counter: str, trips: str, span: Span) -> list[typed.Stmt]:
    """`-((start - stop) // step)` iterations, rounded up; none where that is negative. The step must not be zero."""
    start, stop, step = (_widened(body, bound, span) for bound in (bounds.start, bounds.stop, bounds.step))
    zero = typed.Static(IntType(ZERO), span)
    moves = apply_operator(body, NotEqual(), [step, zero], span, span)
    distance = apply_operator(body, Sub(), [start, stop], span, span)
    count = apply_operator(body, Neg(), [apply_operator(body, FloorDiv(), [distance, step], span, span)], span, span)
    checked: list[typed.Stmt] = [typed.Assert(span, moves, "the step of a range is zero")]
    begun = bind(body, counter, span, typed.Coerce(TensorType((), I64), span, zero), span)
    return [*([] if _is_number(bounds.step) else checked), *bind(body, trips, span, count, span), *begun]


def _is_number(step: typed.Expr) -> bool:
    """Whether a step is written as a number, which is then not zero."""
    known = step.value.type if isinstance(step, typed.Coerce) else step.type
    return isinstance(known, IntType) and known.value.constant is not None


def _next_index(body: Body, bounds: RunBounds, target: ast.Name, counter: str, span: Span) -> list[typed.Stmt]:
    """The index of an iteration, in the dtype of the bounds: `start + count * step`."""
    start, step = _widened(body, bounds.start, span), _widened(body, bounds.step, span)
    steps = apply_operator(body, Mul(), [body.local(counter, span), step], span, span)
    index = apply_operator(body, Add(), [start, steps], span, span)
    return bind(body, target.id, target.span, typed.Coerce(bounds.type, span, index), span)


def _widened(body: Body, bound: typed.Expr, span: Span) -> typed.Expr:
    return apply_operator(body, Cast(I64, NO_POLICY), [bound], span, span)


def _index_symbol(body: Body, name: str) -> str:
    """The loop index as a size of its own; another name where that one is taken by a size."""
    symbol, number = name, 1
    while symbol in body.sizes.symbols or body.facts.is_index(symbol):
        number += 1
        symbol = f"{name}_{number}"
    return symbol


def _check_while(body: Body, node: ast.While) -> list[typed.Stmt]:
    flag = _open_flag(body, node.body)
    lowered = _lower_flag(body, flag, node.span)
    loop, first = _enter(body, node.body, node.test.span), len(body.devices.meetings)
    with body.facts.scope():
        body.flow.branches += 1
        test = apart(body, lambda: require_condition(body, body.expression(node.test)))
        body.flow.branches -= 1
    if flag and not isinstance(test.type, ErrorType):
        test = _both(_is_down(body, flag, node.test.span), test)
    with assuming(body, test, holds=True):
        block = _iteration(body, node.body)
    if test.type == BoolType(True) and not (body.sink.has_errors_in(node.span) or is_broken(node)):
        body.sink.error(E0606, at=node.test.span).remark("its condition depends on nothing that an iteration changes")
    require_uniformity(body, first, test, node.test.span, body.scope.bindings)
    results = _leave(body, loop)
    _close_flag(body, flag)
    if isinstance(test.type, BoolType | ErrorType):
        return []
    return [*loop.begun, *lowered, typed.While(node.span, test, block, results, memory_of_run(body, node.span))]


def _both(down: typed.Expr, test: typed.Expr) -> typed.Expr:
    """The condition of a loop that a `break` may end as well."""
    if isinstance(test.type, BoolType):
        return down if test.type.value else test
    if may_end(test):
        stopped = typed.Coerce(_ONE_BOOL, test.span, typed.Static(BoolType(False), test.span))
        return typed.Conditional(_ONE_BOOL, test.span, down, test, stopped)
    return typed.Apply(_ONE_BOOL, test.span, BitAnd(), (down, test))


@dataclass(frozen=True)
class _Loop:
    """The names bound in a loop, what an enclosing loop pins, and what has to be a value of the run before the loop."""

    names: tuple[str, ...]
    outer: dict[str, Pinned]
    begun: tuple[typed.Stmt, ...]
    span: Span


def _enter(
    body: Body, statements: tuple[ast.Stmt, ...], loop: Span, counters: Sequence[str] = (), index: str | None = None
) -> _Loop:
    """Pins the names that live before the loop and are bound in it, and counters of its own."""
    names = [*_assigned(body, statements), *(name for name in body.flow.flags[-1:] if name), *counters]
    outer, begun = dict(body.scope.pinned), list[typed.Stmt]()
    for name in names:
        binding = body.scope.bindings.get(name)
        if binding is None or name == index:
            continue
        start = _start(body, binding, loop)
        if start != binding.type:
            begun.append(typed.Bind(loop, name, converted(body, body.local(name, loop), start)))
        binding = Binding(name, start, binding.span, binding.value, starts=True)
        body.scope.bind(binding)
        body.scope.pinned[name] = Pinned(binding, loop, body.flow.dead, body.flow.path)
    return _Loop(tuple(dict.fromkeys([*names, *([index] if index else [])])), outer, tuple(begun), loop)


def _start(body: Body, binding: Binding, loop: Span) -> Type:
    """What a name is in every iteration: floats are those of the run, and a number is what an iteration has told."""
    opened, told = open_floats(binding.type), risen(body, binding.name, loop)
    return opened if told is None else meet(body, opened, told) or opened


def _iteration(body: Body, statements: tuple[ast.Stmt, ...], counter: Counter | None = None) -> typed.Block:
    body.flow.loops += 1
    outer, body.flow.counter = body.flow.counter, counter
    memory, body.flow.memory = body.flow.memory, None  # it is said of the loops that stand directly in a `with`
    block = body.rules.block(body, statements)
    body.flow.memory = memory
    body.flow.counter = outer
    body.flow.loops -= 1
    return block


def _leave(body: Body, loop: _Loop) -> tuple[typed.Carried, ...]:
    """Names after the loop: the carried ones keep their type, the others have no value."""
    carried: list[typed.Carried] = []
    pins, body.scope.pinned = body.scope.pinned, loop.outer
    for name in loop.names:
        inside = body.scope.bindings.get(name)
        if name not in pins:
            if inside is not None:
                body.scope.lose(name, Lost(inside.span, loop.span, _initial(body, inside.type)))
            continue
        binding, outer = pins[name].binding, loop.outer.get(name)
        if outer is not None:
            kept_type(body, name, binding.span, outer, binding.type)
        body.scope.bind(Binding(name, binding.type, binding.span, None))
        if not is_static(binding.type):
            carried.append(typed.Carried(name, binding.type))
    return tuple(carried)


def _initial(body: Body, type_: Type) -> str:
    """What a name of this type could be before a loop; empty where its sizes belong to an iteration."""
    if not isinstance(type_, TensorType) or any(body.facts.is_index(n) for dim in type_.dims for n in dim.symbols()):
        return ""
    return written_zeros(type_, type_.dims)
