"""The host program of a GPU function made ready for some sizes: what depends on sizes alone is done once.

Enters: the steps of a `GpuProgram` and the values of its symbols. Leaves: actions, one after another, that launch
kernels, and look at the device only where the program cannot go on without: a flag, an assertion, something to print.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from tessera.devices import Gpu
from tessera.gpu_effects import check_words, failed, print_values, require
from tessera.gpu_launch import State, ready_launch
from tessera.gpu_program import (
    Assert,
    Box,
    Buffer,
    CheckIndices,
    Cond,
    GpuProgram,
    Last,
    Launch,
    Loop,
    Print,
    Require,
    Select,
    Step,
    Steps,
    Swap,
    While,
)
from tessera.signature import STATUS_ASSERT
from tessera.sizes import Size

MOST_KEPT = 256
"""Iterations whose actions are kept, of a loop whose launches are cut in another way each time."""

Action: TypeAlias = Callable[[State], None]
Symbols: TypeAlias = Mapping[str, int]


class Actions:
    """`launches` is how many there are; None where that depends on what is computed, or where the host looks at the
    device in between: then they are no graph."""

    def __init__(self, actions: tuple[Action, ...], launches: int | None) -> None:
        self._actions = actions
        self.launches = launches

    def __call__(self, state: State) -> None:
        for action in self._actions:
            action(state)


Made: TypeAlias = tuple[Action, int | None]
"""An action, and its launches as `Actions` counts them."""


class Preparation:
    """Makes a program ready for some sizes."""

    def __init__(self, gpu: Gpu, program: GpuProgram, symbols: Symbols) -> None:
        self.gpu = gpu
        self.program = program
        self.symbols = dict(symbols)

    def actions(self, steps: Steps, symbols: Symbols, counters: frozenset[str] = frozenset()) -> Actions:
        """`counters` are those of the loops around whose iterations share these actions."""
        made = [pair for step in steps for pair in self._step(step, symbols, counters)]
        counts = [count for _, count in made]
        total = None if None in counts else sum(count for count in counts if count is not None)
        return Actions(tuple(action for action, _ in made), total)

    def _step(self, step: Step, symbols: Symbols, counters: frozenset[str]) -> Iterator[Made]:
        match step:
            case Launch():
                launch = ready_launch(self.gpu, self.program, step, symbols, counters)
                if launch is not None:
                    yield launch.run, 1
            case Select(predicates, arms):
                chosen = (arm for p, arm in zip(predicates, arms, strict=False) if p.holds(symbols))
                inner = self.actions(next(chosen, arms[-1]), symbols, counters)
                yield inner, inner.launches
            case Loop():
                yield self._loop(step, symbols, counters)
            case While(test, flag, body):
                parts = self.actions(test, symbols, counters), self.actions(body, symbols, counters)
                yield self._while(flag, *parts), None
            case Cond(flag, yes, no):
                parts = self.actions(yes, symbols, counters), self.actions(no, symbols, counters)
                yield self._cond(flag, *parts), None
            case Assert() | Print() | Require():
                yield self._effect(step), None
            case Swap() | Box() | CheckIndices() | Last():
                yield self._note(step), 0

    # -- control flow

    def _loop(self, step: Loop, symbols: Symbols, counters: frozenset[str]) -> Made:
        counts = range(step.low.evaluate(symbols), step.high.evaluate(symbols))
        if not counts:
            return Actions((), 0), 0
        if any(step.counter in size.symbols() for size in self._shaping(step.body)):
            return self._loop_of_kinds(step, counts, symbols, counters), None
        body = self.actions(step.body, {**symbols, step.counter: counts[0]}, counters | {step.counter})
        may_end = any(isinstance(inner, Last) for inner in _walk(step.body))
        total = None if body.launches is None or may_end else body.launches * len(counts)
        return _counted(step.counter, counts, lambda count: body), total

    def _loop_of_kinds(self, step: Loop, counts: range, symbols: Symbols, counters: frozenset[str]) -> Action:
        """A loop each of whose iterations is launched in its own way."""
        kept: dict[int, Actions] = {}

        def body(count: int) -> Actions:
            made = kept.get(count) or self.actions(step.body, {**symbols, step.counter: count}, counters)
            if len(kept) < MOST_KEPT:
                kept[count] = made
            return made

        return _counted(step.counter, counts, body)

    def _shaping(self, steps: Steps) -> Iterator[Size]:
        """The sizes that say how steps are launched, and not only what they are given."""
        for step in _walk(steps):
            match step:
                case Launch(kernels, _):
                    for kernel in (self.program.kernels[i] for i in kernels):
                        yield from (kernel.programs, kernel.shared)
                        yield from (side for c in kernel.conditions for side in (c.left, c.right))
                        yield from (part for p in kernel.parameters for part in p if isinstance(part, Size))
                case Select(predicates, _):
                    yield from (side for p in predicates for side in (p.left, p.right))
                case Loop(_, low, high, _):
                    yield from (low, high)

    def _while(self, flag: int, test: Actions, body: Actions) -> Action:
        def run(state: State) -> None:
            test(state)
            while self._flag(state, flag):
                body(state)
                test(state)

        return run

    def _cond(self, flag: int, yes: Actions, no: Actions) -> Action:
        return lambda state: (yes if self._flag(state, flag) else no)(state)

    # -- what changes the state of the host alone

    def _note(self, step: Swap | Box | CheckIndices | Last) -> Action:
        match step:
            case Swap(left, right):
                return _swapping(left, right)
            case Box(target, source, offset):
                return self._boxing(target, source, offset)
            case CheckIndices(_, sizes, _):
                return lambda state: state.told.append((step, tuple(self._size(size, state) for size in sizes)))
            case Last():
                return _end_loop

    def _boxing(self, target: int, source: int, offset: Size) -> Action:
        def run(state: State) -> None:
            state.addresses[target] = state.addresses[source] + self._size(offset, state)

        return run

    def _size(self, size: Size, state: State) -> int:
        return size.evaluate({**self.symbols, **state.counts} if state.counts else self.symbols)

    # -- what the host looks at

    def _effect(self, step: Assert | Print | Require) -> Action:
        match step:
            case Assert(flag, site):
                return lambda state: self._assert(state, flag, site)
            case Print():
                return lambda state: self._print(state, step)
            case Require():
                return lambda state: self._require(state, step)

    def _assert(self, state: State, flag: int, site: int) -> None:
        if not self._flag(state, flag):
            raise failed(self.program.signature, STATUS_ASSERT, site, (), self.symbols)

    def _print(self, state: State, step: Print) -> None:
        self.look(state)
        data = [self._read(state, number, self.bytes_of(self.program.buffers[number])) for number in step.shown]
        sizes = [self._size(size, state) for size in step.sizes]
        print_values(self.program.signature.sites[step.site], data, sizes)

    def _require(self, state: State, step: Require) -> None:
        symbols = {**self.symbols, **state.counts}
        if not step.condition.holds(symbols):
            self.look(state)  # what comes first is told first
            require(self.program.signature, step, symbols)

    def _flag(self, state: State, buffer: int) -> bool:
        self.look(state)
        return self._read(state, buffer, 1) != b"\0"

    def look(self, state: State) -> None:
        """Ends the call at the first place, in the order of the program, whose kernels have told of a bad index. Until
        then they have read zeros in its place."""
        waiting, state.told = state.told, []
        for step, sizes in waiting:
            words = self._read(state, step.words, 8 * len(sizes))
            check_words(self.program.signature, step, words, sizes, self.symbols)

    def _read(self, state: State, buffer: int, size: int) -> bytearray:
        """Waits for what was launched, and reads a buffer."""
        held = bytearray(size)
        if size:
            room = (ctypes.c_char * size).from_buffer(held)
            self.gpu.driver.copy_out(ctypes.addressof(room), state.addresses[buffer], size, state.stream)
            self.gpu.driver.wait(state.stream)
            self.gpu.memory.copied_out += size
        return held

    def bytes_of(self, buffer: Buffer) -> int:
        return buffer.bytes_at(self.symbols)


def _walk(steps: Steps) -> Iterator[Step]:
    """The steps, and all inside them."""
    for step in steps:
        yield step
        match step:
            case Select(_, arms):
                for arm in arms:
                    yield from _walk(arm)
            case Loop(_, _, _, body):
                yield from _walk(body)
            case While(test, _, body):
                yield from _walk((*test, *body))
            case Cond(_, yes, no):
                yield from _walk((*yes, *no))


def _counted(counter: str, counts: range, body: Callable[[int], Actions]) -> Action:
    def run(state: State) -> None:
        for count in counts:
            state.counts[counter] = count
            body(count)(state)
            if state.is_last:
                state.is_last = False
                break
        state.counts.pop(counter, None)

    return run


def _swapping(left: int, right: int) -> Action:
    def run(state: State) -> None:
        held = state.addresses
        held[left], held[right] = held[right], held[left]

    return run


def _end_loop(state: State) -> None:
    state.is_last = True
