"""Structured control flow over a Builder: counted loops, do-while, conditionals. Values leave through phis.

Loops are tested at the bottom (a guard jumps over an empty one): LLVM's code generator keeps carried values of such
loops in place without a pass that rotates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import VOID, Value, const_int

LoopBody = Callable[[Value, list[Value]], Sequence[Value]]
Arm = Callable[[], Sequence[Value]]


def open_block(b: Builder, label: str) -> None:
    b.enter_block(label)


def new_label(b: Builder, stem: str) -> str:
    b.function.labels += 1
    return f"{stem}{b.function.labels}"


def jump(b: Builder, label: str) -> None:
    b.line(f"br label %{label}")


def branch(b: Builder, condition: Value, yes: str, no: str, metadata: str = "") -> None:
    b.line(f"br {condition}, label %{yes}, label %{no}{metadata}")


def phi(b: Builder, choices: Sequence[tuple[Value, str]]) -> Value:
    pairs = ", ".join(f"[ {value.text}, %{label} ]" for value, label in choices)
    type_ = choices[0][0].type
    return b.define(type_, f"phi {type_} {pairs}")


def for_loop(
    b: Builder,
    low: Value,
    high: Value,
    step: Value,
    inits: Sequence[Value],
    body: LoopBody,
    *,
    nonempty: bool = False,
    unroll: bool = False,
    rarely_empty: bool = False,
) -> list[Value]:
    """`for i in low, low + step, ... while i < high` with carried values; gives what the last iteration yielded.

    `nonempty` promises low < high and drops the guard. What an empty loop gives is written behind all other code where
    it is `rarely_empty`: see Note [Written once]. Unless `unroll`, LLVM is told to leave the loop as it is.
    """
    guarded = not nonempty and not _known_nonempty(low, high)
    head, done = new_label(b, "loop"), new_label(b, "done")
    before = skipped = b.function.current
    if guarded and rarely_empty:
        skipped = new_label(b, "empty")
        branch(b, b.icmp("slt", low, high), head, skipped)
        with _out_of_line(b):
            open_block(b, skipped)
            stay_apart(b)
            jump(b, done)
    elif guarded:
        branch(b, b.icmp("slt", low, high), head, done)
    else:
        jump(b, head)
    open_block(b, head)
    index = b.fresh(low.type)
    carried = [b.fresh(v.type) for v in inits]
    place = len(b.function.lines)
    yielded = list(body(index, carried))
    following = b.binary("add", index, step)
    latch = b.function.current
    phis = [
        f"  {c.text} = phi {c.type} [ {i.text}, %{before} ], [ {n.text}, %{latch} ]"
        for c, i, n in zip([index, *carried], [low, *inits], [following, *yielded], strict=True)
    ]
    b.function.lines[place:place] = phis
    metadata = "" if unroll else f", !llvm.loop {b.module.loop_metadata()}"
    branch(b, b.icmp("slt", following, high), head, done, metadata)
    open_block(b, done)
    if not guarded:
        return yielded
    return [phi(b, [(i, skipped), (n, latch)]) for i, n in zip(inits, yielded, strict=True)]


def stay_apart(b: Builder) -> None:
    """Nothing, which LLVM does not know: the block it stands in is not joined with those before it."""
    b.asm(VOID, "", "", [])


def do_while(
    b: Builder, inits: Sequence[Value], body: Callable[[list[Value]], tuple[Value, Sequence[Value]]]
) -> list[Value]:
    """Runs `body` at least once and again while the condition it gives holds; gives its last values."""
    head, done = new_label(b, "again"), new_label(b, "done")
    before = b.function.current
    jump(b, head)
    open_block(b, head)
    carried = [b.fresh(v.type) for v in inits]
    place = len(b.function.lines)
    go_on, yielded = body(carried)
    latch = b.function.current
    b.function.lines[place:place] = [
        f"  {c.text} = phi {c.type} [ {i.text}, %{before} ], [ {n.text}, %{latch} ]"
        for c, i, n in zip(carried, inits, yielded, strict=True)
    ]
    branch(b, go_on, head, done)
    open_block(b, done)
    return list(yielded)


def if_then(b: Builder, condition: Value, body: Callable[[], None]) -> None:
    """Runs `body` where the condition holds. A body that ends in `ret` must use `if_return`."""
    yes, done = new_label(b, "then"), new_label(b, "done")
    branch(b, condition, yes, done)
    open_block(b, yes)
    body()
    jump(b, done)
    open_block(b, done)


def if_else(b: Builder, condition: Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    """Runs one body of two."""

    def arm(body: Callable[[], None]) -> Arm:
        def run() -> Sequence[Value]:
            body()
            return []

        return run

    choose(b, condition, arm(then), arm(otherwise))


def if_return(b: Builder, condition: Value, body: Callable[[], None]) -> None:
    """Runs `body`, which returns from the function, where the condition holds."""
    yes, done, known = new_label(b, "leave"), new_label(b, "stay"), b.known()
    branch(b, condition, yes, done)
    open_block(b, yes)
    body()
    b.enter_block(done, known)


def choose(b: Builder, condition: Value, then: Arm, otherwise: Arm, *, rare: bool = False) -> list[Value]:
    """Runs one arm of two; gives the values of the one that ran. A `rare` first arm stands behind all other code."""
    yes, no, done = new_label(b, "then"), new_label(b, "else"), new_label(b, "done")
    branch(b, condition, yes, no)
    ends: list[tuple[Sequence[Value], str]] = []
    for label, arm in ((yes, then), (no, otherwise)):
        with _out_of_line(b) if rare and arm is then else nullcontext():
            open_block(b, label)
            values = arm()
            ends.append((values, b.function.current))
            jump(b, done)
    open_block(b, done)
    (left, after_left), (right, after_right) = ends
    return [phi(b, [(x, after_left), (y, after_right)]) for x, y in zip(left, right, strict=True)]


@contextmanager
def _out_of_line(b: Builder) -> Iterator[None]:
    """What is written here comes behind all other blocks of the function."""
    function = b.function
    hot, function.lines = function.lines, []
    yield
    function.cold += function.lines
    function.lines = hot


def switch(b: Builder, value: Value, arms: Sequence[Callable[[], None]]) -> None:
    """Runs arm number `value`; does nothing where there is none."""
    labels, done = [new_label(b, "case") for _ in arms], new_label(b, "done")
    cases = " ".join(f"{const_int(value.type, i)}, label %{label}" for i, label in enumerate(labels))
    b.line(f"switch {value}, label %{done} [ {cases} ]")
    for label, arm in zip(labels, arms, strict=True):
        open_block(b, label)
        arm()
        jump(b, done)
    open_block(b, done)


def _known_nonempty(low: Value, high: Value) -> bool:
    return low.number is not None and high.number is not None and low.number < high.number


# Note [Written once]
# What a loop gives where it has no iteration is what it begins with. LLVM writes both where it tests for that, register
# by register, though only one is needed: 64 sums of a thread that are zero at first were cleared three times, by the
# loop, by the test and by that of the loop around it, before the first product of a block could begin.
