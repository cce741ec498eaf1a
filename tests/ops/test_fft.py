"""Fourier transforms: their error against an exact one, the bits of compiled code, lengths that only a call knows."""

from __future__ import annotations

from functools import cache
from itertools import product
from operator import itemgetter
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac import cli
from tesserac.graph.interp import run_function
from tesserac.graph.passes.fix_sizes import fix_sizes
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.core import Module, VerifyError
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.ir.verify import verify_module
from tesserac.numerics.roots import roots
from tesserac.ops.fourier import plan, prime_factors
from tesserac.ops.registry import OPERATORS
from tesserac.pipeline import schedule_passes
from tesserac.schedule.chains.packed_columns import Packed, packed_reach
from tesserac.schedule.dialect import launch_kind
from tesserac.schedule.machine import AARCH64
from tesserac.schedule.model.space import Reach
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import C64, C128
from tesserac.types.ty import TensorType
from tests.graph.test_graph_passes import normal, picture
from tests.ops.test_graph_lower import module_of
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import some_of_each, spread
from tests.support.source_support import compile_to_forms

UNIT = {"c8": 2.0**-24, "c16": 2.0**-53}
LENGTHS = (*range(1, 65), 100, 127, 128, 243, 360, 1000, 1009, 1024, 4096)


def bound(length: int, dtype: str) -> float:
    """What docs/language.md states of the relative error, over the whole spectrum."""
    return UNIT[dtype] * (4 + np.log2(length))


def points(*shape: int, dtype: str = "c8", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


@cache
def exact_roots(length: int) -> np.ndarray:
    """exp(-2 pi i e / N) in the widest floats there are."""
    with mpmath.workdps(40):
        pi = np.longdouble(str(+mpmath.mp.pi))
    angles = -2 * np.arange(length).astype(np.longdouble) * pi / length
    return np.cos(angles) + 1j * np.sin(angles)


def exact_fft(x: np.ndarray) -> np.ndarray:
    """The sum as it is defined, in the widest floats there are."""
    length = x.shape[-1]
    wide, table, n = x.astype(np.clongdouble), exact_roots(length), np.arange(length)
    return np.stack([(wide * table[k * n % length]).sum(-1) for k in range(length)], -1)


@cache
def forms(name: str, length: int, dtype: str) -> Module:
    ty = TensorType((Dim.const(2), Dim.const(length)), {"c8": C64, "c16": C128}[dtype])
    return run_passes(module_of(OPERATORS[name](), [ty]), [generalize, split_complex, fold_views], verify=True)


def error(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm((got - expected).astype("c16")) / max(np.linalg.norm(expected.astype("c16")), 1e-300))


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("length", "dtype"), some_of_each(product(LENGTHS, UNIT), key=itemgetter(0)))
def test_the_error_is_as_stated(length: int, dtype: str) -> None:
    """Of the oracle, whose bits compiled code has."""
    x = points(2, length, dtype=dtype)
    expected = exact_fft(x) if length <= 360 else np.fft.fft(x.astype("c16"))  # which is exact to a unit or two
    (spectrum,) = run_function(forms("fft", length, dtype), "f", [x])
    assert error(spectrum, expected) <= bound(length, dtype)
    (back,) = run_function(forms("ifft", length, dtype), "f", [spectrum])
    assert error(back, x) <= 2 * bound(length, dtype)


def test_roots_are_the_nearest_floats() -> None:
    for order in (1, 2, 3, 8, 12, 100, 1009):
        cos, sin = roots(order, np.arange(-order, 2 * order))
        for e, c, s in zip(range(-order, 2 * order), cos, sin, strict=True):
            assert_nearest(order, e, c, s)
    order, few = (1 << 40) + 15, np.array([0, 1, 12345, 1 << 37, (1 << 38) - 1, (1 << 40) + 14])  # of many, only some
    for e, c, s in zip(few.tolist(), *roots(order, few), strict=True):
        assert_nearest(order, e, c, s)


def assert_nearest(order: int, e: int, c: float, s: float) -> None:
    with mpmath.workprec(200):
        angle = 2 * mpmath.pi * e / order
        assert abs(c - mpmath.cos(angle)) <= np.spacing(abs(c)) / 2 + 1e-50
        assert abs(s - mpmath.sin(angle)) <= np.spacing(abs(s)) / 2 + 1e-50


def test_plans() -> None:
    assert plan(1024) == (16, 8, 8) and plan(512) == (8, 8, 8) and plan(34) == (17, 2)
    assert plan(1) == () and plan(61) == (61,) and plan(67) is None
    assert all(np.prod(plan(n) or n) == n for n in range(1, 200))
    assert all(np.prod(prime_factors(n)) == n for n in range(1, 200))


PROGRAM = """
def spectrum(x: Tensor[..., N]):
    return fft(x), ifft(x), N

def real_spectrum(x: Tensor[B, N, f32]):
    z = rfft(x)
    return z, irfft(z)

def double(x: Tensor[N, f64]):
    return rfft(x), fft(x)

def odd(x: Tensor[B, 15, f64]) -> Tensor[B, 15, f64]:
    return irfft(rfft(x), 15)

def planes(x: Tensor[B, M, N, c64]):
    return fft2(x), ifft2(x)

def centred(x: Tensor[N, c64]):
    return fftshift(x), ifftshift(x)

def frequencies(n: int):
    return fftfreq(n), rfftfreq(n, 0.5)

def halves(x: Tensor[B, 2 * N, c64], w: Tensor[N, f32]):
    return fft(x[:, :N]) * cast(w, c64)
"""
CHANGING = """
def changing(x: Tensor[N, c64]):
    total = cast(complex(0.0, 0.0), c64)
    for i in range(2, N):
        total = total + sum(fft(x[:i]))
    return total
"""


@pytest.fixture(scope="module")
def module() -> tessera.Module:
    return tessera.compile(PROGRAM)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("length", "dtype"), spread([(1, "c8"), (12, "c8"), (12, "c16"), (67, "c8"), (100, "c8")], 3))
def test_compiled_code_has_the_bits_of_the_oracle(module: tessera.Module, length: int, dtype: str) -> None:
    x = points(2, length, dtype=dtype)
    forward, backward, size = module.spectrum(x)
    same_bits(forward, run_function(forms("fft", length, dtype), "f", [x])[0])
    same_bits(backward, run_function(forms("ifft", length, dtype), "f", [x])[0])
    assert size == length


@pytest.mark.one_in(24)
@given(st.sampled_from([(), (1,), (0,), (3, 2), (2, 0)]), st.sampled_from([12, 100]))
@settings(max_examples=6, deadline=None)
def test_batches_do_not_show(batch: tuple[int, ...], length: int) -> None:
    module = tessera.compile(PROGRAM)
    x = points(*batch, length)
    got = module.spectrum(x)[0]
    assert got.shape == x.shape
    for place in np.ndindex(*batch):
        same_bits(got[place], module.spectrum(x[place])[0])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("length", [2, 30])
def test_real_transforms(module: tessera.Module, length: int) -> None:
    x = points(3, length).real.copy()
    spectrum, back = module.real_spectrum(x)
    np.testing.assert_allclose(spectrum, np.fft.rfft(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-6)
    wide = points(length, dtype="c16").real.copy()
    for got, expected in zip(module.double(wide), (np.fft.rfft(wide), np.fft.fft(wide)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.one_in(4)
def test_an_odd_length_is_said(module: tessera.Module) -> None:
    x = points(3, 15, dtype="c16").real.copy()
    np.testing.assert_allclose(module.odd(x), x, rtol=1e-13, atol=1e-14)


@pytest.mark.one_in(3)
def test_the_rest_of_the_family(module: tessera.Module) -> None:
    x = points(2, 6, 10)
    for got, expected in zip(module.planes(x), (np.fft.fft2(x), np.fft.ifft2(x)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    for length in (7, 8):
        row = points(length)
        for got, expected in zip(module.centred(row), (np.fft.fftshift(row), np.fft.ifftshift(row)), strict=True):
            np.testing.assert_array_equal(got, expected)
        ours, theirs = module.frequencies(length), (np.fft.fftfreq(length), np.fft.rfftfreq(length, 0.5))
        for got, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_length_may_be_an_expression(module: tessera.Module) -> None:
    x, w = points(2, 12), np.arange(6, dtype="f4")
    np.testing.assert_allclose(module.halves(x, w), np.fft.fft(x[:, :6]) * w, rtol=1e-5, atol=1e-5)
    with pytest.raises(tessera.TesseraError, match="has size 12 in dim 1, but `2\\*N` is 10"):
        module.halves(x, w[:5])


def test_a_length_that_changes_in_a_loop_is_refused() -> None:
    with pytest.raises(tessera.TesseraError, match="E0228"):
        tessera.compile(CHANGING)


@pytest.mark.one_in(2)
def test_shapes_say_which_code_a_call_means(module: tessera.Module) -> None:
    """A second call of the same shapes goes straight to the code, which still looks at what it is given."""
    for length in (4, 6, 4, 6):
        row = points(length)
        np.testing.assert_array_equal(module.centred(row)[0], np.fft.fftshift(row))
        np.testing.assert_array_equal(module.centred(x=row)[0], np.fft.fftshift(row))
    halves = module.halves
    x, w = points(2, 12), np.arange(6, dtype="f4")
    for _ in range(2):
        np.testing.assert_allclose(halves(x, w), np.fft.fft(x[:, :6]) * w, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(halves(x[:, ::-1], w), np.fft.fft(x[:, :5:-1]) * w, rtol=1e-5, atol=1e-5)
        with pytest.raises(tessera.TesseraError, match="E0922"):
            halves(x.astype("c16"), w)


def test_steps_are_launches_that_read_and_write_whole_vectors() -> None:
    """Three steps of 1024 points; the parts of the caller's numbers are read and written side by side."""
    text = "def f(x: Tensor[B, 1024, c64]) -> Tensor[B, 1024, c64]:\n    return fft(x)\n"
    built = run_passes(compile_to_forms(text), schedule_passes(AARCH64), verify=True)
    launches = [op for func in built.ops for op in func.walk() if op.name == "schedule.launch"]
    assert [launch_kind(op) for op in launches] == ["lines"] * 3


@pytest.mark.parametrize(
    ("out", "yields", "message"),
    [
        ("[0, none]", "%a, %b", ""),
        ("[none, 0]", "%a, %b", "meets another size"),
        ("[0, none]", "%a", "yields every element"),
        ("[0, 0]", "%a, %b", "writes each point once"),
    ],
)
def test_lines_are_verified(out: str, yields: str, message: str) -> None:
    text = f"""
func.func @f {{guards = [], params = ["x"]}} {{
  ^(%x: tensor<[N, 2], f32>):
    %y = form.lines(%x) {{maps = [[0, none]], out = {out}}} : tensor<[N, 2], f32> {{
      ^(%a: scalar<f32>, %b: scalar<f32>):
        form.yield({yields})
    }}
    func.return(%y)
}}
"""
    if not message:
        verify_module(parse_module(text))
        return
    with pytest.raises(VerifyError, match=message):
        verify_module(parse_module(text))


def test_nothing_has_no_transform(module: tessera.Module) -> None:
    with pytest.raises(tessera.TesseraError, match="needs N >= 1"):
        module.real_spectrum(np.zeros((2, 0), "f4"))


def test_a_sized_function_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path))
    program, x = "def f(x: Tensor[N, c64]):\n    return fft(x)\n", points(4)
    first = tessera.compile(program).f(x)
    kept = len(list(tmp_path.rglob("*")))
    same_bits(tessera.compile(program).f(x), first)
    assert len(list(tmp_path.rglob("*"))) == kept


def test_ahead_of_time_a_size_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spectrum.tess"
    file.write_text("def spectrum(x: Tensor[B, N, c64]):\n    return fft(x), N\n")

    def command(*args: str) -> int:
        return cli.main(cli.compiler, "tesserac", args)

    assert command("build", str(file)) == 1
    said = capsys.readouterr().err
    assert "error[E0904]" in said and "--specialize N=..." in said
    assert command("build", str(file), "--specialize", "N") == 2
    assert command("check", "--verify", str(file)) == 0
    assert command("build", str(file), "--specialize", "N=8") == 0
    bundle = tessera.load(str(tmp_path / "spectrum.tessb"))
    got, size = bundle.spectrum(points(3, 8))
    np.testing.assert_allclose(got, np.fft.fft(points(3, 8)), rtol=1e-5, atol=1e-5)
    assert size == 8
    with pytest.raises(tessera.TesseraError, match="E0924"):
        bundle.spectrum(points(3, 9))


def test_the_picture_of_fix_sizes() -> None:
    from tesserac.graph.passes import fix_sizes as file

    before, after = picture((file.__doc__ or "").replace("Before, with the sizes {N: 8}:", "Before:"))
    assert normal(run_passes(before, [fix_sizes({"N": 8})], verify=True)) == normal(after)
    assert print_module(run_passes(after, [fix_sizes({})], verify=True)) == print_module(after)
    with pytest.raises(file.SizesDemanded, match="demands N"):
        fix_sizes({}).run(parse_module(print_module(before)))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_that_goes_through_all_steps_in_turn_has_the_bits_of_its_rows(threads: int) -> None:
    """What is transformed lies in workspace, too, and may not be where a step of another row is written."""
    module = tessera.compile(
        "def one(x: Tensor[960, c64]):\n    return fft(x)\n"
        "def many(x: Tensor[B, C, 960, c64]):\n    return fft(cumsum(x, axis=1))\n"
        "def halves(x: Tensor[B, 960, f32]):\n    return rfft(x), rfft(x[:1])\n"
    )
    rng = np.random.default_rng(7)
    x = (rng.normal(size=(21, 2, 960)) + 1j * rng.normal(size=(21, 2, 960))).astype(np.complex64)
    before = tessera.get_num_threads()
    tessera.set_num_threads(threads)
    found, (all_halves, first) = np.asarray(module.many(x)), module.halves(x.real[:, 0].copy())
    tessera.set_num_threads(before)
    summed = np.stack([x[:, 0], x[:, 0] + x[:, 1]], axis=1)
    rows = np.stack([[np.asarray(module.one(row)) for row in pair] for pair in summed])
    assert found.tobytes() == rows.tobytes()
    assert np.asarray(all_halves)[:1].tobytes() == np.asarray(first).tobytes()


LONG = """
def rows(x: Tensor[B, 1048576, c64]):
    return fft(x)

def columns(x: Tensor[1048576, B, c64]):
    return fft(x, axis=0)
"""


@pytest.mark.one_in(48)
def test_columns_of_a_long_transform_that_go_through_a_group_of_steps_change_no_bits() -> None:
    """Rows that no cache holds go by columns, those beside each other do not."""
    module, z = tessera.compile(LONG), points(2, 1048576)
    before = tessera.get_num_threads()
    expected = np.ascontiguousarray(np.asarray(module.columns(np.ascontiguousarray(z.T))).T)
    try:
        for threads in (1, 3):
            tessera.set_num_threads(threads)
            same_bits(module.rows(z), expected)
            same_bits(module.rows(z[1:].copy()), expected[1:])
    finally:
        tessera.set_num_threads(before)


def test_a_long_transform_goes_by_columns() -> None:
    text = "def f(x: Tensor[B, 1048576, c64]):\n    return fft(x)\n"
    (func,) = run_passes(compile_to_forms(text), schedule_passes(AARCH64), verify=True).ops
    launches = [op for op in func.walk() if op.name == "schedule.launch"]
    assert ["follows" in op.attrs for op in launches] == [False, True, False, True, True]
    assert ["packs" in op.attrs for op in launches] == [True] * 5


def test_packed_columns() -> None:
    """The picture of the file: a step along a dim, from place to place, and none along no dim."""
    packed = Packed(1, Dim.sym("B") * 65536, 65536, 4096, 128)
    assert packed.region == 16 * 8 * 16
    for step, expected in ((4096, 128), (16, 16), (1, 1), (5000, None)):
        found = packed.step(Dim.const(step))
        assert (None if found is None else found.constant) == expected
    assert packed.step(Dim.sym("B") * 65536) == Dim.const(2048)
    assert packed.place(Dim.const(2 * 4096 + 17)) == Dim.const(2 * 128 + 17)
    reach = Reach(0, ZERO, (Dim.const(65536), Dim.const(16)), computed=((Dim.const(16), Dim.const(-4096)),))
    found_reach = packed_reach(reach, packed)
    assert found_reach is not None and found_reach.strides == (ZERO, Dim.const(16))
    assert found_reach.computed == ((Dim.const(16), Dim.const(-128)),)


AXES = """
def rows(x: Tensor[B, 48, c64]):
    return fft(x)

def columns(x: Tensor[A, 48, C, c64]):
    return fft(x, axis=1)

def real_columns(x: Tensor[A, 48, C, f32]):
    return rfft(x, axis=1)

def real_rows(x: Tensor[B, 48, f32]):
    return rfft(x), abs(rfft(x))

def back(z: Tensor[B, 25, c64]):
    return irfft(z)

def back_columns(z: Tensor[A, 25, C, c64]):
    return irfft(z, axis=1)
"""


def as_rows(x: np.ndarray) -> np.ndarray:
    """Dim 1 last, the others as one."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)).reshape(-1, x.shape[1])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_transform_over_another_axis_has_the_bits_of_rows(threads: int) -> None:
    """It goes over the memory as it lies, rows go through a chain of launches: forwards, of real numbers, and back."""
    module, z = tessera.compile(AXES), points(3, 48, 19)
    before = tessera.get_num_threads()
    tessera.set_num_threads(threads)
    try:
        same_bits(as_rows(module.columns(z)), module.rows(as_rows(z)))
        halves, sizes = module.real_rows(as_rows(z.real))
        same_bits(as_rows(module.real_columns(z.real.copy())), halves)
        same_bits(sizes, module.real_rows(as_rows(z.real))[1])
        some = z[:, :25].copy()
        found = module.back(as_rows(some))
        same_bits(as_rows(module.back_columns(some)), found)
    finally:
        tessera.set_num_threads(before)
    np.testing.assert_allclose(halves, np.fft.rfft(as_rows(z.real)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, np.fft.irfft(as_rows(some)), rtol=1e-5, atol=1e-6)


def test_frequencies_and_points_must_fit() -> None:
    with pytest.raises(tessera.TesseraError, match="M == 5"):
        tessera.compile("def f(z: Tensor[6, c64]):\n    return irfft_last(z, 8)\n")


def test_the_ends_of_a_real_transform_run_in_turn_with_its_steps() -> None:
    """What joins the halves reads a row while it is near, and writes where the caller reads."""
    text = "def f(x: Tensor[B, 1024, f32]):\n    return rfft(x)\ndef g(z: Tensor[B, 513, c64]):\n    return irfft(z)\n"
    built = run_passes(compile_to_forms(text), schedule_passes(AARCH64), verify=True)
    for func, expected in zip(built.ops, (6, 5), strict=True):
        launches = [op for op in func.walk() if op.name == "schedule.launch"]
        assert [launch_kind(op) for op in launches] == ["lines"] * expected
        assert ["follows" in op.attrs for op in launches] == [False, *[True] * (expected - 1)]
