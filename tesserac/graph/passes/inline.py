"""Replaces calls by the bodies of their callees, and drops the functions that only calls reached. A function of which
there would be too many copies stays one (`graph/calling.py`), and its calls are marked.

Sizes are substituted, counters of the callee's loops get names that are free in the caller. The callee's guards go: at
each call the checker has proved them or made them guards of the caller.

Before:
    graph.func @double {entry = false, guards = [], params = ["v"]} {
      ^(%v: tensor<[K], f32>):
        %0 = graph.add(%v, %v) : tensor<[K], f32>
        graph.return(%0)
    }
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[2*N], f32>):
        %y = graph.call(%x) {callee = "double", dims = [["K", `2*N`]]} : tensor<[2*N], f32>
        graph.return(%y)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[2*N], f32>):
        %0 = graph.add(%x, %x) : tensor<[2*N], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from tesserac.graph.assert_attribution import attribute, library_name
from tesserac.graph.dialect import (
    ALTERNATIVES,
    AS,
    CALL,
    CUSTOM,
    FORMS,
    FORWARD_RULE,
    KERNEL_CALL,
    MEANT,
    NUMERICS,
    PATTERN,
    PROGRAM,
    REVERSE_RULE,
    SCHEDULE,
    alternatives_of,
    expect_sizes,
    program_of,
    set_meant,
    set_numerics,
    set_schedule,
)
from tesserac.graph.expansion import limit_calls
from tesserac.graph.pinned_blocks import split_pinned
from tesserac.graph.substitute import Replacements, copy_op, counters, replace_op
from tesserac.ir.builder import Builder
from tesserac.ir.calls import CALLED, INVOKE, call_dims
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, VerifyError, attr, tuple_of
from tesserac.ir.forms import tensor_type
from tesserac.ir.ordering import ORDERED, behind
from tesserac.ir.passes import GRAPH, pass_
from tesserac.types.dims import Dim

MEANING = ".meaning"
"""What is added to the symbol of a kernel that is an entry, for what it calls."""
ALONE = ".alone"
"""What is added to the symbol of a kernel that a debug build compares with what it implements."""
Change = Callable[[Module, Op], None]
"""What is done with a function once there are no calls in it any more, before it is copied to where it is called."""


def written_symbol(symbol: str) -> str:
    """That of the function itself: an entry calls its meaning under another one, and so does one that is checked."""
    return symbol.removesuffix(MEANING).removesuffix(ALONE)


@pass_(GRAPH, GRAPH, "inline")
def inline(module: Module) -> Module:
    """Raises TooManyOperators."""
    return inlined(module, lambda module, function: None)


def inlined(module: Module, change: Change) -> Module:
    """Raises TooManyOperators."""
    called = limit_calls(module)
    finished: set[str] = set()
    for function in [f for f in module.ops if f.attrs["entry"] is True and is_chosen(f)]:
        _call_kernel(module, function)
    for function in list(module.ops):
        _inline_calls(module, function, finished, called, change, ())
    for function in module.ops:
        if function.symbol in called:
            function.attrs |= {CALLED: called[function.symbol], "guards": ()}  # each call has made sure of them
    erase_unreached(module)
    return module


def erase_unreached(module: Module) -> None:
    """Drops functions that no entry needs: what calls with rules of their own name is needed still."""
    needed = [function for function in module.ops if function.attrs["entry"] is True or PATTERN in function.attrs]
    for function in needed:
        program = program_of(function)
        symbols = [] if program is None else [program.symbol]
        symbols += [way.symbol for way in alternatives_of(function) if way.symbol]
        for op in function.walk():
            symbols += custom_symbols(op) if op.name in (CALL, CUSTOM, KERNEL_CALL, INVOKE) else []
        found = [module.lookup(symbol) for symbol in dict.fromkeys(symbols)]
        needed += [callee for callee in found if callee not in needed]
    for function in list(module.ops):
        if function not in needed:
            function.erase()


def custom_symbols(op: Op) -> list[str]:
    """The functions that a call with rules of its own names."""
    rules = [attr(op, name, tuple) for name in (FORWARD_RULE, REVERSE_RULE) if name in op.attrs]
    forms = [tuple_of(form, object)[1] for form in tuple_of(op.attrs.get(FORMS, ()), tuple)]
    return [attr(op, "callee", str), *(str(rule[0]) for rule in rules), *map(str, forms)]


def _inline_calls(
    module: Module,
    function: Op,
    finished: set[str],
    called: Mapping[str, str],
    change: Change,
    callers: tuple[str, ...],
) -> None:
    """Inlines callees first, so that what is copied has no calls left."""
    name = function.symbol
    if name in callers:
        raise VerifyError(f"@{name} calls itself through {', '.join(callers)}", function)
    if name in finished:
        return
    for op in list(function.walk()):
        if op.name == CALL and FORMS not in op.attrs:  # those that have forms keep their names until one is chosen
            callee = module.lookup(str(op.attrs["callee"]))
            _inline_calls(module, callee, finished, called, change, (*callers, name))
            if callee.symbol in called:
                replace_op(op, CUSTOM, {**op.attrs, CALLED: True})
            elif stays(op, callee):
                replace_op(op, CUSTOM, op.attrs)
            else:
                inline_call(op, callee, function, attr(op, AS, str) if AS in op.attrs else None)
    change(module, function)
    finished.add(name)


def stays(call: Op, callee: Op) -> bool:
    """Whether a call keeps its name until it is known whether it runs as tiles."""
    return MEANT not in call.attrs and is_chosen(callee)


def is_chosen(function: Op) -> bool:
    """Whether a target chooses how to compute a function: it is a kernel, or kernels implement it."""
    return program_of(function) is not None or bool(alternatives_of(function))


def _call_kernel(module: Module, function: Op) -> None:
    """An entry that is a kernel calls it: who knows of tiles finds it there as anywhere else. So does one that kernels
    implement."""
    symbol = function.symbol + MEANING
    for op in module.walk():
        if op.attrs.get("callee") == function.symbol:
            op.attrs["callee"] = symbol
    attrs: dict[str, Attr] = {**function.attrs, "sym_name": symbol, "entry": False, "guards": ()}
    body = Block([a.type for a in function.body.args], [a.name for a in function.body.args])
    types = [v.type for v in function.body.terminator.operands]
    meaning = Op(OPDEFS["graph.func"], (), (), attrs, list(function.regions), function.span)
    function.regions.clear()
    function.regions.append(Region(body))
    function.regions[0].parent = function
    for name in (PROGRAM, ALTERNATIVES):
        function.attrs.pop(name, None)
    builder = Builder(body, function.span)
    found = {name for arg in body.args for dim in tensor_type(arg).dims for name in dim.symbols()}
    dims = tuple((name, Dim.sym(name)) for name in sorted(found))
    effects = tuple_of(attrs.get("effects", ()), str)
    places: dict[str, Attr] = {effect: (0,) for effect in ORDERED if effect in effects}
    call = builder.op(CUSTOM, body.args, types, {"callee": symbol, "dims": dims, **places})
    builder.op("graph.return", call.results)
    module.block.append(meaning)


def inline_call(call: Op, callee: Op, caller: Op, told: str | None = None) -> None:
    """A call becomes the body of its callee, in which there are no calls any more. What that asserts is told as of
    `told`, else as of the callee where it is of the library."""
    dims = call_dims(call)
    expect_sizes(caller, callee, dims)
    sizes = Replacements(dims | _fresh_counters(callee, caller, dims))
    values: dict[Value, Value] = dict(zip(callee.body.args, call.operands, strict=True))
    block = call.parent
    assert block is not None
    mode, compared = call.attrs.get(NUMERICS), MEANT in call.attrs and PATTERN in callee.attrs
    asserting = None if library_name(caller.symbol, caller.span) else told or library_name(callee.symbol, callee.span)
    copies = []
    for op in callee.body.ops[:-1]:
        copy = block.insert(block.place(call), copy_op(op, values, sizes))
        copies.append(copy)
        behind(copy, call)
        if asserting is not None:
            attribute(copy, asserting, call.span)
        set_numerics(copy, mode)
        if compared:
            set_meant(copy)
        set_schedule(copy, call.attrs.get(SCHEDULE))
    for old, new in zip(call.results, callee.body.terminator.operands, strict=True):
        replacement = values[new]
        replacement.name = replacement.name or old.name
        old.replace_all_uses(replacement)
    call.erase()
    split_pinned(copies)


def _fresh_counters(callee: Op, caller: Op, dims: dict[str, Dim]) -> dict[str, Dim]:
    own = counters(callee)
    if not own:
        return {}
    taken = counters(caller).union(*(d.symbols() for d in dims.values()))
    renamed: dict[str, Dim] = {}
    for name in sorted(own & taken):
        fresh = next(f"{name}_{i}" for i in count(1) if f"{name}_{i}" not in taken | own)
        taken.add(fresh)
        renamed[name] = Dim.sym(fresh)
    return renamed
