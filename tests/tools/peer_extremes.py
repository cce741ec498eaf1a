"""Functions of one and two numbers and of rows beside PyTorch, NumPy and SciPy at extreme inputs, values and gradients:

    python -m tests.tools.peer_extremes [REPORT] [NAME...]

Numbers are NaN, infinities, zeros of both signs, subnormal, smallest and largest ones, edges of the domains of special
functions, and random ones from 1e-6 to 1e6; rows have no element, one, several equal ones, NaN and infinities at every
end, and the least and the largest integer. In f32 a peer computes in f64 and is rounded. A difference is one beyond
the bound, of a NaN, of an infinity or of the sign of a zero. Those that are meant have a reason in DIFFERENT, which for
some holds only in one of REGIONS; where it is a peer's loss of digits, ours are held to 60 digits of mpmath
(`exact_peers.py`). The exit status is 1 where a difference has no reason or lies beyond it. Needs the extra `peers`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tessera
from tests.tools.exact_peers import unproved

Array = np.ndarray
BOUNDS = {"f64": (1e-12, 1e-9), "f32": (3e-6, 3e-5)}
"""Of values, and of gradients, relative."""
KINDS: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
NUMBERS = """
abs ceil floor round trunc rint=round sign neg square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10
log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid sinc erf erfc erfinv lgamma digamma
frac isnan isinf isfinite isposinf isneginf signbit nan_to_num relu=F.relu relu6=F.relu6
leaky_relu=F.leaky_relu elu=F.elu selu=F.selu celu=F.celu gelu=F.gelu silu=F.silu mish=F.mish
hardsigmoid=F.hardsigmoid hardswish=F.hardswish hardtanh=F.hardtanh softplus=F.softplus softsign=F.softsign
softshrink=F.softshrink hardshrink=F.hardshrink tanhshrink=F.tanhshrink logsigmoid=F.logsigmoid logit
ndtr=special.ndtr ndtri=special.ndtri log_ndtr=special.log_ndtr i0=special.i0 i0e=special.i0e i1=special.i1
i1e=special.i1e erfcx=special.erfcx entr=special.entr radians=deg2rad degrees=rad2deg cbrt=scipy.cbrt
gamma=scipy.gamma factorial=scipy.factorial erfcinv=scipy.erfcinv j0=scipy.j0 j1=scipy.j1 y0=scipy.y0
y1=scipy.y1 k0=scipy.k0 k1=scipy.k1 k0e=scipy.k0e k1e=scipy.k1e exprel=scipy.exprel
"""
PAIRS = """
add sub mul div pow maximum minimum fmax fmin atan2 hypot copysign logaddexp logaddexp2 xlogy
xlog1py=special.xlog1py fmod remainder=numpy.remainder floor_divide=numpy.floor_divide
heaviside=numpy.heaviside gammainc=scipy.gammainc gammaincc=scipy.gammaincc nextafter equal=eq less=lt
less_equal=le not_equal=ne boxcox=scipy.boxcox boxcox1p=scipy.boxcox1p
"""
ROWS = """
sum(x) = numpy.sum(x); prod(x) = numpy.prod(x); mean(x) = numpy.mean(x); max(x) = numpy.max(x)
min(x) = numpy.min(x); argmax(x) = numpy.argmax(x); argmin(x) = numpy.argmin(x)
count_nonzero(x) = numpy.count_nonzero(x); var(x) = numpy.var(x); std(x) = numpy.std(x); ptp(x) = numpy.ptp(x)
median(x) = numpy.median(x); nansum(x) = numpy.nansum(x); nanprod(x) = numpy.nanprod(x)
nanmean(x) = numpy.nanmean(x); nanvar(x) = numpy.nanvar(x); nanmax(x) = numpy.nanmax(x)
nanmin(x) = numpy.nanmin(x); nanmedian(x) = numpy.nanmedian(x); cumsum(x) = numpy.cumsum(x)
cumprod(x) = numpy.cumprod(x); nancumsum(x) = numpy.nancumsum(x); cummax(x) = torch.tensor(x).cummax(0)[0]
cummin(x) = torch.tensor(x).cummin(0)[0]; sort(x) = numpy.sort(x); argsort(x) = numpy.argsort(x, kind="stable")
diff(x) = numpy.diff(x); quantile(x, 0.3) = numpy.quantile(x, 0.3)
nanquantile(x, 0.3) = numpy.nanquantile(x, 0.3); softmax(x) = torch.tensor(x).double().softmax(0)
log_softmax(x) = torch.tensor(x).double().log_softmax(0); logsumexp(x) = torch.tensor(x).double().logsumexp(0)
logcumsumexp(x) = torch.tensor(x).double().logcumsumexp(0); norm(x) = numpy.linalg.norm(x.astype("f8"))
trapezoid(x) = numpy.trapezoid(x); unwrap(x) = numpy.unwrap(x); flip(x) = numpy.flip(x)
roll(x, 2) = numpy.roll(x, 2); pad(x, 1) = numpy.pad(x, 1); repeat(x, 2) = numpy.repeat(x, 2)
tile(x, 2) = numpy.tile(x, 2); outer(x, x) = numpy.outer(x, x); frexp(x)[0] = numpy.frexp(x)[0]
frexp(x)[1] = numpy.frexp(x)[1]; modf(x)[0] = numpy.modf(x)[0]; modf(x)[1] = numpy.modf(x)[1]
spacing(x) = numpy.spacing(x); round(x, 2) = numpy.round(x, 2)
histc(x, 4, -3.0, 3.0) = torch.histc(torch.tensor(x), 4, -3, 3)
"""
ROW_SLOPES = """
sum(x) = x.sum(); prod(x) = x.prod(); mean(x) = x.mean(); max(x) = x.amax(); min(x) = x.amin()
var(x) = x.var(correction=0); std(x) = x.std(correction=0); nansum(x) = x.nansum(); nanmean(x) = x.nanmean()
sum(cumsum(x)) = x.cumsum(0).sum(); sum(cumprod(x)) = x.cumprod(0).sum(); sum(sort(x)[1:]) = x.sort()[0][1:].sum()
sum(softmax(x)[:1]) = x.softmax(0)[:1].sum(); sum(log_softmax(x)) = x.log_softmax(0).sum()
logsumexp(x) = x.logsumexp(0); sum(logcumsumexp(x)) = x.logcumsumexp(0).sum(); norm(x) = x.norm()
median(x) = x.quantile(0.5); sum(cummax(x)) = x.cummax(0)[0].sum(); sum(roll(x, 2) * x) = (x.roll(2) * x).sum()
mse_loss(x, zeros_like(x)) = F.mse_loss(x, 0 * x.detach().nan_to_num())
huber_loss(x, zeros_like(x)) = F.huber_loss(x, 0 * x.detach().nan_to_num())
l1_loss(x, zeros_like(x)) = F.l1_loss(x, 0 * x.detach().nan_to_num())
bce_with_logits(x, ones_like(x)) = F.binary_cross_entropy_with_logits(x, x.detach() ** 0)
sum(cross_entropy(x[None, :], zeros(1, dtype=i64))) = F.cross_entropy(x[None], torch.tensor([0]))
sum(gather(x, array([0, 0]))) = x[torch.tensor([0, 0])].sum(); sum(diff(x) * diff(x)) = (x.diff() ** 2).sum()
sum(topk(x, 1)[0]) = x.topk(1)[0].sum(); sum(clip(x, -1.0, 1.0)) = x.clip(-1, 1).sum()
sum(nan_to_num(x)) = x.nan_to_num().sum(); sum(layernorm(x)[:1]) = F.layer_norm(x, x.shape)[:1].sum()
"""
INTEGERS = """
sum(x) = numpy.sum(x); prod(x) = numpy.prod(x); max(x) = numpy.max(x); min(x) = numpy.min(x)
mean(x) = numpy.mean(x); cumsum(x) = numpy.cumsum(x); sort(x) = numpy.sort(x)
argsort(x) = numpy.argsort(x, kind="stable"); abs(x) = numpy.abs(x); sign(x) = numpy.sign(x); -x = -x
x * x = x * x; x // 2 = x // 2; x // -1 = x // -1; x % 3 = x % 3; x % -3 = x % -3; x << 3 = x << 3
x >> 3 = x >> 3; x ** 3 = x ** 3; ~x = ~x; bitwise_count(x) = numpy.bitwise_count(x)
gcd(x, full_like(x, 6)) = numpy.gcd(x, numpy.int32(6)); fmod(x, full_like(x, 3)) = numpy.fmod(x, numpy.int32(3))
bincount(abs(x) % 5, size=6) = numpy.bincount(numpy.abs(x) % 5, minlength=6); diff(x) = numpy.diff(x)
clip(x, 0, 2) = numpy.clip(x, 0, 2); argmax(x) = numpy.argmax(x); flip(x) = numpy.flip(x)
median(x) = numpy.median(x)
"""
SEVERAL: list[list[float]] = [
    [], [1.5], [np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [np.nan, 1, 2], [1, np.nan, np.nan], [0.0, -0.0],
    [-0.0, -0.0], [3e38, 3e38], [-3e38, -3e38, 1], [1e-45, 1e-45], [np.inf, 1, 2], [-np.inf, 1, 2],
    [np.nan, np.inf, -np.inf], [2, 2, 1], [5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6, 7], [np.nan, np.nan],
]  # fmt: skip
WHOLE = [[], [1], [-(2**31)], [2**31 - 1], [2**31 - 1, 1], [-(2**31), -1], [0, 0], [3, 1, 3], [-5, 4, -3, 2]]
MEANT_NAN = "at NaN the slope is NaN or that of the side the comparison takes; PyTorch has 0 or 1"
ZEROS = "-0 is less than +0, of which PyTorch 2.15 has either"
MORE_DIGITS = "PyTorch or SciPy loses digits, underflows or overflows on the way"
DIFFERENT = {
    "sign": "sign(-0) is -0 and sign(NaN) NaN, as in JAX",
    "rsqrt": "the slope at -0 has the sign of the side",
    "acosh acos asin atanh logit": "no slope outside of the domain, or of the formula inside",
    "i0 i1": "inf at infinity, where PyTorch has NaN; i1(-0) is -0",
    "gelu silu mish hardswish softsign": "limits at infinity, where PyTorch has NaN; " + MORE_DIGITS,
    "abs hardtanh hardshrink": MEANT_NAN,
    "relu": ZEROS,
    "relu6 maximum minimum": f"{ZEROS}; {MEANT_NAN}",
    "softshrink": "+0 inside; " + MEANT_NAN,
    "hardsigmoid": "the slope of PyTorch is 1/6 of f32 also in f64; at NaN it is 0",
    "fmax fmin": "where both are equal each has half of the slope, as `maximum`",
    "hypot copysign": "slopes at infinity and at (0, 0) are finite; of f32 where it overflows or is subnormal",
    "atan2": "slopes at infinity are 0; " + MORE_DIGITS,
    "heaviside": "NaN at NaN, as in NumPy",
    "pow": "(-1)^y of a large even y falls, in PyTorch y - 1 is rounded; slopes of f32 overflow where f64 does not",
    "div": "slopes by a subnormal divisor go by its reciprocal, which overflows; those of a subnormal quotient by it",
    "logaddexp logaddexp2": "slopes at (inf, inf) add up to 1; " + MORE_DIGITS,
    "logsigmoid": "-0 where it underflows",
    "gammainc gammaincc": "NaN where one operand is; " + MORE_DIGITS,
    "boxcox boxcox1p": "errors are those of powers in the dtype; limits at infinity",
    "xlogy xlog1py": "the slope at (0, inf) is 0",
    "tanh": "the slope is 1 - tanh^2 in the dtype",
    "nan_to_num spacing nextafter": "of the dtype",
    "softplus": "PyTorch is linear beyond 20",
    "remainder floor_divide fmod": "exact, where NumPy goes by a rounded quotient; by zero slopes are NaN",
    "erfcinv": "0 at 1; " + MORE_DIGITS,
    "erfinv ndtr ndtri log_ndtr i0e i1e erfcx tanhshrink sigmoid expm1 asinh sinc lgamma digamma": MORE_DIGITS,
    "log10 j0 j1 y0 y1 k0 k1 k0e k1e gamma factorial exprel": MORE_DIGITS,
    "logsumexp(x)": "NaN where +inf is among the elements, `logsumexp_safe` has inf",
    "quantile(x, 0.3) nanquantile(x, 0.3)": "of one infinite element that, where NumPy has NaN",
    "median(x) nanmedian(x) round(x, 2) norm(x)": "no overflow on the way",
    "unwrap(x) trapezoid(x) diff(x)": "no elements are refused",
    "cumsum(x) nancumsum(x)": "a sum of zeros is +0",
    "sort(x) cummax(x) max(x) min(x) nanmax(x) nanmin(x)": "-0 is less than +0, of which NumPy on x86 has either",
    "logcumsumexp(x)": MORE_DIGITS,
}  # fmt: skip
def _edges(x: Array) -> Array:
    return (x == 0) | ~np.isfinite(x)


def _rounded(x: Array) -> Array:
    """What the dtype has no digits for: beyond its largest number, or below its normal ones."""
    return ~np.isfinite(x) | (np.abs(x) < np.finfo(x.dtype).tiny)


def _is_not_finite(x: Array) -> Array:
    return np.asarray(~np.isfinite(x))


def _is_far(x: Array) -> Array:
    return _is_not_finite(x) | (np.abs(x) > 1e19)


def _has_ties(x: Array) -> bool:
    return len(set(x.tolist())) < len(x)


REGIONS: dict[str, Callable[..., Array]] = {
    "sign rsqrt": _edges,
    "acosh": lambda x: ~(x > 1) | _rounded(x * x),
    "acos asin atanh": lambda x: ~(np.abs(x) < 1),
    "logit": lambda x: ~((x > 0) & (x < 1)),
    "i0 i1": lambda x: _edges(x) | (np.abs(x) > 80),
    "abs hardtanh hardshrink": np.isnan,
    "relu": lambda x: x == 0,
    "relu6": lambda x: np.isnan(x) | (x == 0),
    "softshrink": lambda x: np.isnan(x) | (np.abs(x) <= 0.5),
    "heaviside": lambda x, y: np.isnan(x) | np.isnan(y),
    "maximum minimum": lambda x, y: np.isnan(x) | np.isnan(y) | ((x == 0) & (y == 0)),
    "fmax fmin": lambda x, y: (x == y) | np.isnan(x) | np.isnan(y),
    "hypot": lambda x, y: _edges(x) | _edges(y) | _rounded(np.hypot(x, y)),
    "copysign xlogy xlog1py": lambda x, y: _edges(x) | _edges(y),
    "logsigmoid": lambda x: (x > 80) | np.isnan(x),
    "softplus": lambda x: x > 20,
    "div": lambda x, y: _edges(x) | _edges(y) | _rounded(y / 2) | _rounded(x / y),
}
"""Where the reason of a function holds; a difference elsewhere has none."""
WHERE = {name: region for names, region in REGIONS.items() for name in names.split()}
REASONS = {name: why for names, why in DIFFERENT.items() for name in (re.split(r" (?![\d-])", names))}


OF_SLOPES = {
    "prod(x)": (_is_not_finite, "of an element that is not finite the product of the others, where PyTorch divides"),
    "sum(cumprod(x))": (_is_not_finite, "as that of `prod`"),
    "var(x)": (_is_far, "squares overflow in f32; NaN where a mean is infinite"),
    "std(x)": (_is_far, "as that of `var`"),
    "sum(layernorm(x)[:1])": (_is_far, "as that of `var`"),
    "nanmean(x)": (_is_not_finite, "0 by what is left out, also where everything is"),
    "logsumexp(x)": (_is_far, "NaN beside +inf; shares of equal elements, where PyTorch has 1 by overflow of digits"),
    "sum(logcumsumexp(x))": (_is_far, "0 by -inf; shares of equal elements; NaN only from its place on"),
    "norm(x)": (lambda x: np.abs(x).max() < 1e-40, "0 where subnormal numbers have no digits for their squares"),
    "median(x)": (_has_ties, "all of it by the first of two equal middles"),
    "sum(cummax(x))": (_is_not_finite, "NaN from its place on"),
    "l1_loss(x, zeros_like(x))": (_is_not_finite, "NaN at NaN"),
    "sum(topk(x, 1)[0])": (_is_not_finite, "NaN is taken last"),
    "sum(clip(x, -1.0, 1.0))": (lambda x: (np.abs(x) == 1) | np.isnan(x), "a half at an end, as `maximum`; NaN at NaN"),
}
"""For which rows, or elements, the reason for another slope holds."""


def edges(dtype: str) -> Array:
    kind = KINDS[dtype]
    info = np.finfo(kind)
    least, eps = info.smallest_subnormal, info.eps
    small = [0.0, least, 3 * least, info.tiny, eps, eps / 4, 1e-5, 0.1, 0.25, 0.5, 0.75, 1 - eps / 2, 1.0, 1 + eps]
    some = [1.4616321, 1.5, 2.0, 2.5, 3.0, 4.5, 6.0, 7.5, 10.0, 20.3, 34.0, 88.0, 100.0, 120.5, 171.5, 709.5, 745.0]
    far = [1e4, 123456.7, 2.0**24, 2.0**31, 2.0**53, 1e19, 1e30, np.sqrt(info.max), info.max / 4, info.max, np.inf]
    positive = np.array([*small, *some, *far]).astype(kind)
    rng = np.random.default_rng(1)
    drawn = (rng.normal(size=20) * 10 ** rng.uniform(-6, 6, 20)).astype(kind)
    return np.concatenate([positive, -positive, [np.nan], drawn]).astype(kind)


def differs(found: Array, wanted: Array, bound: float) -> Array:
    """Where two results are not the same within the bound."""
    if found.shape != wanted.shape:
        return np.ones(1, bool)
    if found.dtype.kind != "f":
        return np.asarray(found != wanted)
    wanted = wanted.astype(found.dtype)
    exact = (np.isnan(found) & np.isnan(wanted)) | (np.isinf(found) & (found == wanted))
    f, w = found.astype(np.float64), wanted.astype(np.float64)
    room = bound * np.abs(w) + 2 * float(np.finfo(found.dtype).smallest_subnormal)
    turned = (found == 0) & (wanted == 0) & (np.signbit(found) != np.signbit(wanted))
    return np.asarray(~exact & ~(np.isfinite(f) & np.isfinite(w) & (np.abs(f - w) <= room) & ~turned))


class Peers:
    """PyTorch, NumPy and SciPy by the names of the tables."""

    def __init__(self) -> None:
        import scipy.special
        import torch

        self.torch, self.scipy = torch, scipy.special

    def function(self, name: str) -> Any:
        places = {"F": self.torch.nn.functional, "special": self.torch.special, "scipy": self.scipy, "numpy": np}
        place, dot, last = name.rpartition(".")
        return getattr(places[place] if dot else self.torch, last)

    def results(self, name: str, args: list[Array]) -> tuple[Array, list[Array] | None]:
        """Values in f64, and slopes where the peer has them."""
        call = self.function(name)
        if name.startswith(("numpy.", "scipy.")):
            return np.asarray(call(*(a.astype(np.float64) for a in args))), None
        operands = [self.torch.tensor(a, dtype=self.torch.float64, requires_grad=True) for a in args]
        value = call(*operands)
        if not value.requires_grad:
            return value.detach().numpy(), None
        try:
            value.sum().backward()
        except RuntimeError:
            return value.detach().numpy(), None
        return value.detach().numpy(), [_slope(o) for o in operands]

    def row_slope(self, text: str, x: Array) -> Array:
        operand = self.torch.tensor(x, dtype=self.torch.float64, requires_grad=True)
        eval(text, {"torch": self.torch, "F": self.torch.nn.functional, "x": operand}).backward()
        return _slope(operand)

    def expression(self, text: str, x: Array) -> Array:
        return np.asarray(eval(text, {"torch": self.torch, "numpy": np, "x": x}))


def _slope(operand: Any) -> Array:
    return np.zeros(operand.shape) if operand.grad is None else np.asarray(operand.grad.numpy())


Line = tuple[str, str, int, int, int]
"""What was run, its dtype, how many results, how many differ, and for how many of these the reason does not hold."""


def of_numbers(peers: Peers, names: str, count: int, dtype: str, wanted: set[str]) -> Iterator[Line]:
    given = [edges(dtype)] if count == 1 else [a.ravel() for a in np.meshgrid(edges(dtype)[::2], edges(dtype)[::2])]
    letters = "xy"[:count]
    typed, listed = ", ".join(f"{c}: Tensor[N, {dtype}]" for c in letters), ", ".join(letters)
    for entry in names.split():
        name, _, peer = entry.partition("=")
        if wanted and name not in wanted:
            continue
        value, slopes = peers.results(peer or name, given)
        text = f"def f({typed}):\n    return {name}({listed})\n"
        if slopes is not None:
            wrt = "(0,)" if count == 1 else "(0, 1)"
            text += f"def g({typed}):\n    return grad(lambda {listed}: sum({name}({listed})), wrt={wrt})({listed})\n"
        module: Any = tessera.compile(text)
        ours = [np.asarray(module.f(*given)), *(np.asarray(g) + 0.0 for g in (module.g(*given) if slopes else ()))]
        theirs = [value, *(g.astype(KINDS[dtype]) + 0.0 for g in slopes or ())]
        total, wrong, open_ = 0, 0, 0
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            bound = BOUNDS[dtype][min(place, 1)]
            apart = differs(one, other, bound)
            total, wrong = total + apart.size, wrong + int(apart.sum())
            open_ += unproved(name, given[0], one, apart, bound, place > 0) if count == 1 else 0
            open_ += int((apart & ~WHERE[name](*given)).sum()) if name in WHERE else 0
        yield name, dtype, total, wrong, open_


def of_rows(peers: Peers, table: str, dtype: str, rows: list[Any], wanted: set[str]) -> Iterator[Line]:
    for entry in re.split(r"[;\n]", table.strip()):
        call, peer = entry.strip().split(" = ")
        if wanted and call not in wanted:
            continue
        module, total, wrong = tessera.compile(f"def f(x: Tensor[N, {dtype}]):\n    return {call}\n"), 0, 0
        for row in rows:
            x = np.array(row, KINDS[dtype])
            try:
                expected = peers.expression(peer, x)
            except (ValueError, IndexError, RuntimeError):
                continue  # the peer has no value: of no elements
            total += 1
            try:
                wrong += bool(differs(np.asarray(module.f(x)), expected, BOUNDS["f32"][0]).any())
            except tessera.TesseraError:
                wrong += 1
        yield call, dtype, total, wrong, 0


def of_row_slopes(peers: Peers, wanted: set[str]) -> Iterator[Line]:
    """A difference is meant where its reason holds for an element of the row."""
    for entry in re.split(r"[;\n]", ROW_SLOPES.strip()):
        call, peer = entry.strip().split(" = ")
        if wanted and f"slope of {call}" not in wanted:
            continue
        module: Any = tessera.compile(f"def g(x: Tensor[N, f32]):\n    return grad(lambda x: {call})(x)\n")
        holds = OF_SLOPES[call][0] if call in OF_SLOPES else lambda x: False
        total = wrong = open_ = 0
        for row in SEVERAL[1:]:  # without elements there is no slope
            x = np.array(row, np.float32)
            theirs = peers.row_slope(peer, x).astype(np.float32)
            total += 1
            if _slopes_differ(np.asarray(module.g(x)), theirs):
                wrong, open_ = wrong + 1, open_ + (not np.any(holds(x)))
        yield f"slope of {call}", "f32", total, wrong, open_


def _slopes_differ(ours: Array, theirs: Array) -> bool:
    near = np.abs(ours - theirs) <= 1e-6  # sums that cancel
    zero = np.float32(0)
    return bool((differs(ours + zero, theirs + zero, BOUNDS["f32"][1]) & ~near).any())


def every(wanted: set[str]) -> Iterator[Line]:
    peers = Peers()
    for dtype in ("f64", "f32"):
        yield from of_numbers(peers, NUMBERS, 1, dtype, wanted)
        yield from of_numbers(peers, PAIRS, 2, dtype, wanted)
    yield from of_rows(peers, ROWS, "f32", SEVERAL, wanted)
    yield from of_rows(peers, INTEGERS, "i32", WHOLE, wanted)
    yield from of_row_slopes(peers, wanted)


def _reason(name: str) -> str:
    call = name.removeprefix("slope of ")
    return OF_SLOPES.get(call, (None, ""))[1] if call != name else REASONS.get(name, "")


def main() -> int:
    warnings.simplefilter("ignore")
    lines, unknown = ["| | dtype | results | differ | why |", "|---|---|---|---|---|"], 0
    with np.errstate(all="ignore"):
        for name, dtype, total, wrong, open_ in every({*sys.argv[2:]}):
            why = _reason(name) if wrong else ""
            why = f"**{open_} beyond the reason**: {why}" if open_ else why
            bad = bool(wrong and not why) or open_ > 0
            unknown += bad
            lines.append(f"| `{name}` | {dtype} | {total} | {wrong or ''} | {why} |")
            if bad:
                print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    print(f"{len(lines) - 2} functions, {unknown} differ for no reason that is known")
    return int(unknown > 0)


if __name__ == "__main__":
    raise SystemExit(main())
