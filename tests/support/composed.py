"""Chains of transforms and control flow over a function whose derivatives of all orders are known.

Every step makes of a function of one number another one: its derivative, or a multiple of it, some times by way of a
mapped dim, a loop or a branch. So what a chain gives at a point is `scale * f^(order)(x) + rest`, and a `Known` follows
these four numbers from step to step.

Enters: the names of steps, the innermost first, and that of a function. Leaves: a program whose `f` is the chain, what
it gives, and a comparison with it, of the interpreter and of machine code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms

X = 0.7
BOUND = 1e-11
"""Relative; a chain multiplies rounding errors by few of its factors."""


@dataclass(frozen=True)
class Known:
    """`scale * f^(order)(x) + rest`, where `rest` does not change with x; the next derivative is `pending` times as
    large, by a rule of its own."""

    order: int = 0
    scale: float = 1.0
    rest: float = 0.0
    pending: float = 1.0

    def times(self, factor: float) -> Known:
        return replace(self, scale=self.scale * factor, rest=self.rest * factor)

    def derived(self, factor: float = 1.0) -> Known:
        return Known(self.order + 1, self.scale * self.pending * factor)


@dataclass(frozen=True)
class Step:
    text: str
    """Of a function, where `{f}` stands for the one before."""
    known: Callable[[Known], Known]


def _same(known: Known) -> Known:
    return known


STEPS = {
    "jvp": Step("lambda x: jvp({f}, (x,), (2.0,))[1]", lambda k: k.derived(2.0)),
    "vjp": Step("lambda x: vjp({f}, x)[1](3.0)[0]", lambda k: k.derived(3.0)),
    "grad": Step("grad({f})", Known.derived),
    "value_and_grad": Step("lambda x: value_and_grad({f})(x)[1]", Known.derived),
    "jacfwd": Step("jacfwd({f})", Known.derived),
    "jacrev": Step("jacrev({f})", Known.derived),
    "hessian": Step("hessian({f})", lambda k: k.derived().derived()),
    "hvp": Step("lambda x: hvp({f})(x, 0.5)", lambda k: k.derived().derived(0.5)),
    "vmap": Step("lambda x: vmap({f})(stack([x, x])) @ array([1.0, 2.0], dtype=f64)", lambda k: k.times(3.0)),
    "pmap": Step("lambda x: pmap({f})(stack([x, x]))[1]", _same),
    "map": Step("lambda x: sum(map({f}, stack([x, x, x])))", lambda k: k.times(3.0)),
    "scan": Step("lambda x: scanned({f}, x)", lambda k: k.times(1.75)),
    "reduce": Step("lambda x: reduce(lambda c, v: c + ({f})(v), 0.0, stack([x, x]))", lambda k: k.times(2.0)),
    "jit": Step("jit({f})", _same),
    "checkpoint": Step("checkpoint({f})", _same),
    "stop_gradient": Step("lambda x: ({f})(x) + stop_gradient(x * x)", lambda k: replace(k, rest=k.rest + X * X)),
    "rule": Step("lambda x: steeper(({f})(x))", lambda k: replace(k, pending=k.pending * 2.0)),
    "for": Step("lambda x: looped({f}, x)", lambda k: k.times(1.75)),
    "while": Step("lambda x: turned({f}, x)", lambda k: k.times(1.75)),
    "if": Step("lambda x: branched({f}, x)", lambda k: k.times(-1.0)),
}
"""By what they are of the language. A factor tells how often a step was made."""

MORE_STEPS = {
    "struct": Step("lambda x: grad(lambda p: ({f})(p.at) * p.by)(Pair(at=x, by=2.0)).at", lambda k: k.derived(2.0)),
    "list": Step(
        "lambda x: grad(lambda ps: ({f})(ps[0].at) + ({f})(ps[1].at))([Pair(at=x, by=x), Pair(at=x, by=x)])[1].at",
        Known.derived,
    ),
    "wrt": Step('lambda x: grad(lambda by, at: ({f})(at) * by, wrt="at")(cast(2.0, f64), x)', lambda k: k.derived(2.0)),
    "method": Step('lambda x: grad(Scaled(by=x).at, wrt="x")({f}, x)', lambda k: k.derived(X)),
    "rows": Step(
        "lambda x: vmap(grad(lambda a, b: ({f})(a) * b), in_axes=(None, 0))(x, array([1.0, 2.0], dtype=f64))[1]",
        lambda k: k.derived(2.0),
    ),
    "implicit": Step("lambda x: fixed_point(lambda t, y: 0.125 * y + 0.875 * ({f})(t), x, cast(0.0, f64))", _same),
    "dynamic": Step("lambda x: counted({f}, x, cast(3, i32))", lambda k: k.times(1.75)),
    "every": Step("lambda x: segmented({f}, x)", lambda k: k.times(1.75)),
    "slots": Step("lambda x: nested({f}, x)", lambda k: k.times(1.75)),
    "break": Step("lambda x: stopped({f}, x)", lambda k: k.times(1.75)),
    "complex": Step("lambda x: real(2.0 * complex(({f})(x), x))", lambda k: k.times(2.0)),
    "fft": Step("lambda x: irfft(rfft(array([({f})(x), 1.0, x, x])), 4)[0]", _same),
    "sort": Step("lambda x: sort(array([({f})(x), 1e6, -1e6]))[1]", _same),
    "solve": Step(
        "lambda x: solve(array([[2.0, 0.0], [1.0, 1.0]], dtype=f64), array([({f})(x), 1.0]))[0]", lambda k: k.times(0.5)
    ),
    "draw": Step("lambda x: ({f})(x) + stop_gradient(0.0 * normal(1, seed=3, dtype=f64)[0])", _same),
    "place": Step("lambda x: placed({f}, x)", lambda k: k.times(2.0)),
    "chosen": Step("lambda x: vmap(lambda at: branched({f}, at))(stack([x, x, x]))[2]", lambda k: k.times(-1.0)),
    "turns": Step(
        "lambda x: sum(vmap(lambda n: counted({f}, x, n))(cast(arange(4), i32)))", lambda k: k.times(0 + 1 + 1.5 + 1.75)
    ),
}
"""The same by other ways that a program may go, for longer runs."""
ALL_STEPS = {**STEPS, **MORE_STEPS}

LIBRARY = """
def steeper(x: Tensor[f64]) -> Tensor[f64]:
    return x

@jvp_of(steeper)
def steeper_forward(x: Tensor[f64], y: Tensor[f64], dx: Tensor[f64]) -> Tensor[f64]:
    return 2.0 * dx

def scanned(f, x: Tensor[f64]) -> Tensor[f64]:
    last, all = scan(lambda c, v: (0.5 * c + f(v), c), 0.0, stack([x, x, x]))
    return last + 0.0 * sum(all)

def looped(f, x: Tensor[f64]) -> Tensor[f64]:
    y = cast(0.0, f64)
    for i in range(3):
        y = 0.5 * y + f(x)
    return y

def turned(f, x: Tensor[f64]) -> Tensor[f64]:
    y, turn = cast(0.0, f64), cast(0, i32)
    while turn < 3:
        y = 0.5 * y + f(x)
        turn += 1
    return y

def counted(f, x: Tensor[f64], n: i32) -> Tensor[f64]:
    y = cast(0.0, f64)
    for i in range(n):
        y = 0.5 * y + f(x)
    return y

def segmented(f, x: Tensor[f64]) -> Tensor[f64]:
    y = cast(0.0, f64)
    with checkpoint(every=2):
        for i in range(3):
            y = 0.5 * y + f(x)
    return y

def nested(f, x: Tensor[f64]) -> Tensor[f64]:
    y = cast(0.0, f64)
    with checkpoint(slots=4):
        for i in range(3):
            y = 0.5 * y + f(x)
    return y

def stopped(f, x: Tensor[f64]) -> Tensor[f64]:
    y = cast(0.0, f64)
    for i in range(9):
        if i >= 3:
            break
        y = 0.5 * y + f(x)
    return y

def placed(f, x: Tensor[f64]) -> Tensor[f64]:
    y = zeros(3, dtype=f64)
    for i in range(2):
        y[i + 1] = f(x)
        y[cast(i, i32)] += y[i + 1] - 0.5 * y[i]
    return y[0] + y[2] + 0.5 * y[1] - 0.5 * y[1]

struct Pair:
    at: Tensor[f64]
    by: Tensor[f64]

struct Scaled:
    by: Tensor[f64]

    def at(self, f, x: Tensor[f64]) -> Tensor[f64]:
        return stop_gradient(self.by) * f(x)

def branched(f, x: Tensor[f64]) -> Tensor[f64]:
    if x > 1.0:
        y = f(x) * f(x)
    else:
        y = -f(x)
    return y

def exponential(x: Tensor[f64]) -> Tensor[f64]:
    return exp(0.5 * x)

def waves(x: Tensor[f64]) -> Tensor[f64]:
    w = array([[0.25, 1.0], [0.5, -0.5]], dtype=f64)
    return sum(sin(x * w @ w[0]))

def power(x: Tensor[f64]) -> Tensor[f64]:
    y = x
    for i in range(5):
        y = y * x
    return y
"""
_WAVES = [0.25 * a + 1.0 * b for a, b in ((0.25, 1.0), (0.5, -0.5))]

FUNCTIONS: dict[str, Callable[[int], float]] = {
    "exponential": lambda n: 0.5**n * math.exp(0.5 * X),
    "waves": lambda n: sum(w**n * math.sin(w * X + n * math.pi / 2) for w in _WAVES),
    "power": lambda n: math.perm(6, n) * X ** (6 - n) if n <= 6 else 0.0,
}
"""Their derivatives of order n at X."""


def chain(steps: Sequence[str], function: str) -> str:
    """The function that the steps make, the first of them the innermost."""
    text = function
    for name in steps:
        text = ALL_STEPS[name].text.replace("{f}", text)
    return text


def value(steps: Sequence[str], function: str) -> float:
    known = Known()
    for name in steps:
        known = ALL_STEPS[name].known(known)
    return known.scale * FUNCTIONS[function](known.order) + known.rest


def check_chains(chains: Sequence[tuple[Sequence[str], str]], *, compiled: bool) -> None:
    """All chains as results of one program: of the interpreter, and to the bit of machine code if asked for."""
    calls = ", ".join(f"({chain(steps, function)})(x)" for steps, function in chains)
    text = f"{LIBRARY}\ndef f(x: Tensor[f64]):\n    return ({calls},)\n"
    found = run_function(compile_to_forms(text), "m.f", [np.asarray(X)])
    for (steps, function), result in zip(chains, found, strict=True):
        wanted = value(steps, function)
        close = abs(float(result) - wanted) <= BOUND * max(abs(wanted), 1.0)
        assert close, f"{' of '.join([*reversed(steps), function])}: {float(result)} is not {wanted}"
    if compiled:
        for result, own in zip(tessera.compile(text).f(np.float64(X)), found, strict=True):
            same_bits(np.asarray(result), np.asarray(own))
