"""Functions of one and two numbers and of rows beside PyTorch, NumPy and SciPy at extreme inputs, values and gradients:

    python -m tests.tools.peer_extremes [REPORT] [NAME...]

Numbers are NaN, infinities, zeros of both signs, subnormal, smallest and largest ones, edges of the domains of special
functions, and random ones from 1e-6 to 1e6; rows have no element, one, several equal ones, NaN and infinities at every
end, and the least and the largest integer. In f32 a peer computes in f64 and is rounded. A difference is one beyond
the bound, of a NaN, of an infinity or of the sign of a zero. Those that are meant have a reason in DIFFERENT; the exit
status is 1 where one has none. Needs the extra `peers`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tessera

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
MORE_DIGITS = "PyTorch or SciPy loses digits, underflows or overflows on the way"
DIFFERENT = {
    "sign": "sign(-0) is -0 and sign(NaN) NaN, as in JAX",
    "rsqrt": "the slope at -0 has the sign of the side",
    "acosh acos asin atanh logit": "no slope outside of the domain, or of the formula inside",
    "i0 i1": "inf at infinity, where PyTorch has NaN; i1(-0) is -0",
    "gelu silu mish hardswish softsign": "limits at infinity, where PyTorch has NaN; " + MORE_DIGITS,
    "abs relu6 hardtanh softshrink hardshrink maximum minimum": MEANT_NAN,
    "hardsigmoid": "the slope of PyTorch is 1/6 of f32 also in f64; at NaN it is 0",
    "fmax fmin": "where both are equal each has half of the slope, as `maximum`",
    "hypot copysign": "slopes at infinity and at (0, 0) are finite",
    "atan2": "slopes at infinity are 0; " + MORE_DIGITS,
    "heaviside": "NaN at NaN, as in NumPy",
    "pow": "(-1)^y of a large even y falls, in PyTorch y - 1 is rounded; slopes of f32 overflow where f64 does not",
    "div": "the slope by a subnormal divisor goes by its reciprocal, which overflows",
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
    "sort(x) cummax(x)": "-0 is less than +0",
    "logcumsumexp(x)": MORE_DIGITS,
}  # fmt: skip
REASONS = {name: why for names, why in DIFFERENT.items() for name in (re.split(r" (?![\d-])", names))}


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

    def expression(self, text: str, x: Array) -> Array:
        return np.asarray(eval(text, {"torch": self.torch, "numpy": np, "x": x}))


def _slope(operand: Any) -> Array:
    return np.zeros(operand.shape) if operand.grad is None else np.asarray(operand.grad.numpy())


Line = tuple[str, str, int, int]
"""What was run, its dtype, how many results, and how many differ."""


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
        found = differs(np.asarray(module.f(*given)), value, BOUNDS[dtype][0])
        total, wrong = found.size, int(found.sum())
        for ours, theirs in zip(module.g(*given), slopes, strict=True) if slopes else ():
            apart = differs(np.asarray(ours) + 0.0, theirs.astype(KINDS[dtype]) + 0.0, BOUNDS[dtype][1])
            total, wrong = total + apart.size, wrong + int(apart.sum())
        yield name, dtype, total, wrong


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
        yield call, dtype, total, wrong


def every(wanted: set[str]) -> Iterator[Line]:
    peers = Peers()
    for dtype in ("f64", "f32"):
        yield from of_numbers(peers, NUMBERS, 1, dtype, wanted)
        yield from of_numbers(peers, PAIRS, 2, dtype, wanted)
    yield from of_rows(peers, ROWS, "f32", SEVERAL, wanted)
    yield from of_rows(peers, INTEGERS, "i32", WHOLE, wanted)


def main() -> int:
    warnings.simplefilter("ignore")
    lines, unknown = ["| | dtype | results | differ | why |", "|---|---|---|---|---|"], 0
    with np.errstate(all="ignore"):
        for name, dtype, total, wrong in every({*sys.argv[2:]}):
            why = REASONS.get(name, "") if wrong else ""
            unknown += bool(wrong and not why)
            lines.append(f"| `{name}` | {dtype} | {total} | {wrong or ''} | {why} |")
            if wrong and not why:
                print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    print(f"{len(lines) - 2} functions, {unknown} differ for no reason that is known")
    return int(unknown > 0)


if __name__ == "__main__":
    raise SystemExit(main())
