"""Functions with derivatives of their own, and the bodies of functions put where they are needed.

Enters: a module, and calls of its functions. Leaves: their bodies, copied. A `graph.custom` keeps its name while
derivatives are taken; one that has a rule for the mode that is asked for goes by it, and what no derivative has reached
becomes its body in the end.

graph.pullback(x..., y..., dx...) {rule, wrt, called} : dy...
    What is linear in `dx` and has the function `rule` as its transpose: the cotangents of `x` from those of `y`. `wrt`
    are the arguments, among those that have tangents, whose tangents are not zero. Where it is `called`, `rule` is the
    function itself, whose derivative is made where it is called (`called.py`), and there are no `y`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count

from tesserac.graph.assert_attribution import attribute
from tesserac.graph.autodiff import called
from tesserac.graph.autodiff.dialect import JVP, VJP, smooth
from tesserac.graph.dialect import (
    CUSTOM,
    FORWARD_RULE,
    KERNEL_CALL,
    MEANT,
    NUMERICS,
    REVERSE_RULE,
    SCHEDULE,
    alternatives_of,
    program_of,
    set_numerics,
    set_schedule,
)
from tesserac.graph.substitute import Replacements, copy_op, counters, replace_op
from tesserac.ir.builder import Builder
from tesserac.ir.calls import CALLED, INVOKE, call_dims, callee_of, named_dims
from tesserac.ir.core import Attr, Block, Module, Op, Value, define_op
from tesserac.ir.ordering import ORDERED, forget_places, has_place
from tesserac.ir.verify import require
from tesserac.types.dims import Dim

PULLBACK = "graph.pullback"
_OF_KERNELS = ("callee", "dims", NUMERICS, SCHEDULE)
_OF_CALLS = ("callee", "dims", *ORDERED)


Observe = Callable[[Op, Dim, Sequence[Value], Sequence[Value]], None]
"""Told of a loop how many iterations it keeps a row of, which values a row has, and what an iteration begins with."""
Expand = Callable[[Op], None]
"""Takes the derivatives in a function that was added."""


class Functions:
    """The functions of a module, and the names of counters that loops have by now where bodies are put."""

    def __init__(
        self, module: Module, taken: set[str], observe: Observe | None = None, expand: Expand | None = None
    ) -> None:
        self._module = module
        self.taken = taken
        self.observe = observe
        self._expand = expand
        self.mapped: dict[Hashable, str] = {}
        """What functions with rules are called for mapped arguments, by what they are and which those are."""

    def fresh(self, counter: str) -> str:
        """A name for a counter that no loop has."""
        name = next(f"{counter}_{i}" for i in count(1) if f"{counter}_{i}" not in self.taken)
        self.taken.add(name)
        return name

    def fresh_symbol(self, symbol: str) -> str:
        """A name for a function that no other has."""
        known = {*(function.symbol for function in self._module.ops), *self.mapped.values()}
        return next(name for i in count(1) if (name := f"{symbol}{i}") not in known)

    def lookup(self, symbol: str) -> Op:
        return self._module.lookup(symbol)

    def add(self, function: Op) -> None:
        self._module.block.append(function)

    def forward_rule(self, custom: Op) -> Attr:
        """The rule of forward mode of a function that is called: one for all its calls."""
        callee = self._module.lookup(callee_of(custom))
        rule = f"{callee.symbol}.jvp"
        if not self._has(rule):
            derived = self._derived(called.forward_of(callee, f"{rule}$"))
            self.add(called.rule_of(callee, derived, rule))
        return rule, custom.attrs["dims"]

    def pull(self, builder: Builder, rule: Attr, operands: Sequence[Value], pull: called.Pull) -> list[Value]:
        """The cotangents of the arguments of a function that is called, by its symbol and sizes: given arguments, then
        the cotangents that `pull` says."""
        assert isinstance(rule, tuple)
        callee = self._module.lookup(str(rule[0]))
        symbol = pull.symbol(callee.symbol)
        function = self._module.lookup(symbol) if self._has(symbol) else self._derived(called.reverse_of(callee, pull))
        return list(called.call(builder, function, operands, rule[1]).results)

    def _has(self, symbol: str) -> bool:
        return any(function.symbol == symbol for function in self._module.ops)

    def _derived(self, function: Op) -> Op:
        self.add(function)
        assert self._expand is not None, "derivatives are taken where functions are expanded"
        self._expand(function)
        return function

    def body(self, builder: Builder, custom: Op, operands: Sequence[Value]) -> list[Value]:
        """What a call of a function with rules computes, and does where it has a place in the order of effects."""
        mode, block = custom.attrs.get(NUMERICS), builder.block
        before = set(block.ops)
        found = self._paste(builder, str(custom.attrs["callee"]), call_dims(custom), operands, None, mode)
        made = [op for op in block.ops if op not in before]
        for op in made if SCHEDULE in custom.attrs else ():
            set_schedule(op, custom.attrs[SCHEDULE])
        if not has_place(custom):
            silence(made)
        return found

    def whole(self, builder: Builder, function: Attr, operands: Sequence[Value]) -> list[Value]:
        """What a function computes, given by its symbol and sizes."""
        assert isinstance(function, tuple)
        return self._paste(builder, str(function[0]), named_dims(function[1]), operands, None, None)

    def is_kernel(self, custom: Op) -> bool:
        """Whether a call is of a kernel that can run as tiles, or of what kernels implement."""
        callee = self._module.lookup(str(custom.attrs["callee"]))
        return program_of(callee) is not None or bool(alternatives_of(callee))

    def shares_value(self, custom: Op) -> bool:
        """Whether what a derivative computes of a call may be parts of its value. The body of a kernel with leading
        dims is a loop over their programs, which no derivative of what it implements has."""
        program = program_of(self._module.lookup(str(custom.attrs["callee"])))
        return program is None or not program.leading

    def is_plain(self, custom: Op) -> bool:
        """Whether a call has its name only because kernels implement it: its derivative is that of its body."""
        callee = self._module.lookup(str(custom.attrs["callee"]))
        ruled = FORWARD_RULE in custom.attrs or REVERSE_RULE in custom.attrs
        return bool(alternatives_of(callee)) and not ruled

    def is_open(self, rule: Attr) -> bool:
        """Whether a rule has derivatives in it that are being taken: then it asks for itself."""
        assert isinstance(rule, tuple)
        return any(op.name in (JVP, VJP) for op in self._module.lookup(str(rule[0])).walk())

    def rule(
        self, builder: Builder, rule: Attr, operands: Sequence[Value], call: Op | None = None, linear: int = 0
    ) -> list[Value]:
        """What a rule computes, in the mode of the call that it belongs to; what it asserts is said of that call. Its
        last `linear` operands are tangents that will be transposed: a call that depends on them becomes its body, which
        can be. What a rule gives in the place of an integer is nothing."""
        assert isinstance(rule, tuple)
        symbol, dims = rule
        tangents = set(operands[len(operands) - linear :]) if linear else None
        before, attrs = set(builder.block.ops), {} if call is None else call.attrs
        found = self._paste(builder, str(symbol), named_dims(dims), operands, tangents, attrs.get(NUMERICS))
        if call is not None and "operator" in attrs:
            for made in [op for op in builder.block.ops if op not in before]:
                attribute(made, str(attrs["operator"]), call.span)
        return smooth(found)

    def _paste(
        self,
        builder: Builder,
        symbol: str,
        dims: dict[str, Dim],
        operands: Sequence[Value],
        tangents: set[Value] | None,
        mode: Attr | None,
    ) -> list[Value]:
        function = self._module.lookup(symbol)
        own, given = counters(function), {s for dim in dims.values() for s in dim.symbols()}
        clashes = own & (self.taken | given)
        self.taken |= own | given  # before any is renamed: a new name is none that the function has elsewhere
        sizes = Replacements(dims | {name: Dim.sym(self.fresh(name)) for name in sorted(clashes)})
        values = dict(zip(function.body.args, operands, strict=True))
        for op in function.body.ops[:-1]:
            copy = copy_op(op, values, sizes)
            set_numerics(copy, mode)
            self._copy(builder, copy, op, values, tangents)
        return [values.get(v, v) for v in function.body.terminator.operands]

    def _copy(
        self, builder: Builder, copy: Op, op: Op, values: dict[Value, Value], tangents: set[Value] | None
    ) -> None:
        depends = tangents is not None and not tangents.isdisjoint(copy.operands)
        if copy.name == CUSTOM and depends:
            mode = copy.attrs.get(NUMERICS)
            found = self._paste(builder, str(copy.attrs["callee"]), call_dims(copy), copy.operands, tangents, mode)
            values.update(zip(op.results, found, strict=True))
            copy.drop_operands()
            return
        builder.add(copy)
        if depends and tangents is not None:
            tangents.update(copy.results)


def silence(ops: Sequence[Op]) -> None:
    """What is computed again asserts and prints nothing: that has been done."""
    for op in [inner for outer in ops for inner in outer.walk()]:
        if not op.opdef.pure and not op.results and not op.opdef.terminator:
            op.erase()
        else:
            forget_places(op)


def dissolve(function: Op, functions: Functions) -> None:
    """Every call of a function with rules becomes its body; one of a kernel waits for who knows of tiles, unless a
    derivative computes what it means anyway."""
    while customs := [op for op in function.walk() if op.name == CUSTOM]:
        meant = {_said(op) for op in customs if MEANT in op.attrs}
        for op in customs:
            if _said(op) in meant:
                op.attrs[MEANT] = True
            if CALLED in op.attrs:
                replace_op(op, INVOKE, {name: op.attrs[name] for name in _OF_CALLS if name in op.attrs})
                continue
            if functions.is_kernel(op) and MEANT not in op.attrs:
                replace_op(op, KERNEL_CALL, {name: op.attrs[name] for name in _OF_KERNELS if name in op.attrs})
                continue
            before = set(_block(op).ops)
            found = functions.body(Builder.before(op), op, op.operands)
            name = op.attrs.get("operator")
            for made in _block(op).ops if isinstance(name, str) else ():
                if made not in before:
                    attribute(made, str(name), op.span)
            for old, new in zip(op.results, found, strict=True):
                new.name = new.name or old.name
                old.replace_all_uses(new)
            op.erase()


def _said(call: Op) -> Hashable:
    """What a call says: two that say the same have the same results."""
    return call.attrs["callee"], call.attrs["dims"], call.operands


def _block(op: Op) -> Block:
    assert op.parent is not None
    return op.parent


def _verify_pullback(op: Op) -> None:
    rule, wrt = op.attrs.get("rule"), op.attrs.get("wrt")
    require(isinstance(rule, tuple) and len(rule) == 2, "needs a rule", op)
    require(isinstance(wrt, tuple) and len(wrt) <= len(op.operands), "says whose tangents it has", op)


define_op(PULLBACK, pure=True, verify=_verify_pullback)
