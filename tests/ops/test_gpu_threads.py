"""Programs for GPUs run thread by thread: sizes beyond one block, and what the host tells of."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera.errors import TesseraError
from tessera.gpu_program import Launch, Select, walk
from tesserac.base.source import SourceFile
from tesserac.ir.passes import run_passes
from tesserac.ops import fourier
from tesserac.schedule.chains import line_chains
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.rows import radix as nvptx_radix
from tesserac.target.nvptx.rows import wide_scans as emitted_scans
from tesserac.tile.gpu.kernels import radix as tile_radix
from tesserac.tile.gpu.kernels import wide_scans
from tesserac.tile.gpu.kernels.split_running import MANY
from tesserac.types.dtype import F64
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, program_of, tile_of

PROGRAM = """
def running(x: Tensor[N, f32]):
    return cumsum(x)

def running_far(x: Tensor[N, f32]):
    return cumsum(x)

def running_rows(x: Tensor[M, N, f64]):
    return cumsum(x, axis=1)

def running_columns(x: Tensor[N, D, f32]):
    return cumsum(x, axis=0), cummax(x, axis=0)

def order(x: Tensor[M, N, f32]):
    return argsort(x, axis=1), argsort(x, axis=1, descending=True)

def narrow_order(x: Tensor[M, N, bf16]):
    return argsort(x, axis=1)

def in_order(x: Tensor[N, M, bf16]):
    return sort(x, axis=0, descending=True)

def rows_at(x: Tensor[N, D, f32], i: Tensor[K, i32]):
    return x[i]

def put(x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]):
    return x.at[i].set(v), x.at[i].add(v)

def put_pairs(x: Tensor[N, D, f32], i: Tensor[K, i32], j: Tensor[K, i32], v: Tensor[K, f32]):
    return x.at[i, j].set(v), x.at[i, j].add(v)

def losses(x: Tensor[M, N, f32], y: Tensor[M, i32]):
    return mean(cross_entropy(x, y))

def joined(x: Tensor[M, N, f32]):
    return concat([x, pad(x, 1, 1, axis=0)], axis=0)

def told(x: Tensor[N, f32]):
    print(sum(x), x[0])
    assert x[0] > 0.0, f"the first is {x[0]}"
    return x * 2.0

def halves(x: Tensor[N, f32], k: Tensor[M, f32], limit: f32):
    total = sum(x)
    if total > limit:
        total = sum(x[:N // M])
    return total

def turned(x: Tensor[12, c64]):
    return fft(x)

def turned_rows(x: Tensor[B, 60, c64]):
    return fft(x)

def turned_twice(x: Tensor[2, 3, 64, c128]):
    return ifft(x)

def turned_in_groups(x: Tensor[B, 512, c64]):
    return fft(x)

def turned_by_primes(x: Tensor[B, 343, c64]):
    return fft(x)

def turned_and_back(x: Tensor[B, 512, c64], h: Tensor[512, c64]):
    return ifft(fft(x) * h)

def turned_from_real(x: Tensor[3, 128, f32]):
    return rfft(x)

def turned_to_real(z: Tensor[3, 9, B, c64]):
    return irfft(z, axis=1)

def narrow(x: Tensor[N, fp8(e4m3)]):
    return cast(cast(x, f32) * 1.5, fp8(e5m2)), cast(x, i4), cast(cast(x, i64), bf16)
"""
FILE = SourceFile("threads.tess", PROGRAM)


@cache
def on_cpu() -> object:
    return tessera.compile(PROGRAM)


@cache
def emulated(name: str) -> Emulated:
    gpu = PLATFORMS["sm_80"]
    lowered = run_passes(tile_of(FILE, name, "sm_80"), [gpu_pass(gpu.schedule)], verify=True)
    symbol = SESSION.function(FILE, name).symbol
    return Emulated(
        gpu_program(lowered, symbol, gpu, SESSION.locate, name=name, returns_tuple=True), kernels_of(lowered)
    )


def compare(name: str, *args: np.ndarray) -> None:
    expected = getattr(on_cpu(), name)(*args)
    several = expected if isinstance(expected, tuple) else (expected,)
    for got, wanted in zip(emulated(name)(*args), several, strict=True):
        same_bits(got, np.asarray(wanted))


def said(error: TesseraError) -> str:
    return error.text.replace("<text>", FILE.path)


def numbers(*shape: int) -> np.ndarray:
    values = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    values.flat[:: 7 + len(shape)] = 0.5
    return values


def places(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(4).integers(-below, below, shape).astype(np.int32)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("size", [0, 1, 2600, 17_000])
def test_running_sums_of_several_blocks(size: int) -> None:
    compare("running", numbers(size))


@pytest.mark.one_in(24)
def test_running_sums_of_more_blocks_than_a_program_takes() -> None:
    """The second program finds a subtree of the first one's, and its last block is short."""
    compare("running_rows", numbers(2, 512 * (wide_scans.chains(F64) + 1) + 3).astype(np.float64))


@pytest.mark.one_in(48)
def test_programs_of_running_sums_tell_each_other() -> None:
    """The fourth completes a subtree of four, which the fifth needs."""
    compare("running_rows", numbers(1, 4 * 512 * wide_scans.chains(F64) + 700).astype(np.float64))


@pytest.mark.one_in(48)
def test_programs_of_running_sums_tell_of_subtrees_of_as_many_as_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 32nd completes one, which the ones behind it ask for beside single programs."""
    for module in (wide_scans, emitted_scans):
        monkeypatch.setattr(module, "chains", lambda dtype: 8)
    compare("running_far", numbers(34 * 8 * 512 + 7))


@pytest.mark.one_in(16)
def test_running_sums_of_many_rows() -> None:
    """From so many programs on, each walks a row."""
    compare("running_rows", numbers(MANY, 600).astype(np.float64))


@pytest.mark.one_in(12)
def test_running_folds_of_columns() -> None:
    compare("running_columns", numbers(1100, 19))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("size", [1, 2, 45])
def test_orders_are_stable(size: int) -> None:
    compare("order", numbers(1, size))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 300 elements go digit by digit, in blocks of 256."""
    for room in (tile_radix, nvptx_radix):
        monkeypatch.setattr(room, "ITEMS", 1)
        monkeypatch.setattr(room, "BLOCK", 256)
    monkeypatch.setattr(tile_radix, "LONG", 300)


def with_equals(*shape: int) -> np.ndarray:
    """Rows with many equal elements, zeros of both signs and NaN."""
    values = numbers(*shape).astype(ml_dtypes.bfloat16)
    values[:, ::5] = 1.0
    values[0, 7], values[1, 9], values[1, 11] = np.nan, -0.0, 0.0
    return values


@pytest.mark.one_in(12)
@pytest.mark.usefixtures("small_blocks")
def test_long_rows_go_digit_by_digit() -> None:
    """Several blocks, two digits, one of which all elements share; equal keys keep their order, NaN comes last."""
    compare("narrow_order", with_equals(2, 600))


@pytest.mark.one_in(12)
@pytest.mark.usefixtures("small_blocks")
def test_elements_go_themselves() -> None:
    """Also along another axis than the last, and from the end: -0 and +0 keep their order and their signs."""
    compare("in_order", np.ascontiguousarray(with_equals(2, 600).T))


@pytest.mark.one_in(12)
def test_elements_of_short_rows() -> None:
    compare("in_order", np.ascontiguousarray(with_equals(2, 45).T))


@pytest.mark.one_in(48)
@pytest.mark.usefixtures("small_blocks")
def test_many_places_go_by_the_digits_of_their_bound() -> None:
    """Two digits of eight for places below 2^16; places count from the end too."""
    compare("put", numbers(400, 1), places(400, 310), numbers(310, 1))


@pytest.mark.one_in(6)
def test_a_bound_says_how_many_digits_there_are() -> None:
    made = program_of(SourceFile("put.tess", PROGRAM), "put", "sm_90a")
    choices = [step for step in walk(made.steps) if isinstance(step, Select) and len(step.arms) > 3]
    digits = [[sum(isinstance(step, Launch) for step in arm) for arm in choice.arms] for choice in choices]
    assert digits == [[1, 1, 6, 12, 24]] * 2


@pytest.mark.one_in(12)
def test_rows_whose_length_a_loop_counts_are_sorted_by_one_block() -> None:
    """Their rooms have no size before the loop; `solve` puts its pivots in order so."""
    text = "def f(a: Tensor[48, 48, f64], b: Tensor[48, f64]):\n    return solve(a, b)\n"
    names = [kernel.name for kernel in program_of(SourceFile("solve.tess", text), "f", "sm_90a").kernels]
    assert not any("counts" in name for name in names)


@pytest.mark.one_in(12)
def test_computed_places() -> None:
    compare("rows_at", numbers(9, 70), places(9, 33))
    compare("put", numbers(9, 70), places(9, 33), numbers(33, 70))
    compare("put_pairs", numbers(5, 4), places(5, 90), places(4, 90), numbers(90))
    compare("put", numbers(2, 3), places(2, 1300), numbers(1300, 3))  # segments of runs
    compare("losses", numbers(33, 70), places(70, 33) % 70)


@pytest.mark.one_in(12)
def test_other_memory() -> None:
    compare("joined", numbers(5, 70))
    compare("turned", (numbers(12) + 1j * numbers(12)[::-1]).astype(np.complex64))


def complex_numbers(*shape: int) -> np.ndarray:
    return (numbers(*shape) + 1j * numbers(*shape)[..., ::-1]).astype(np.complex64)


def kernel_names(name: str) -> list[str]:
    return [kernel.name.rpartition("$")[2] for kernel in program_of(FILE, name, "sm_80").kernels]


@pytest.mark.one_in(24)
def test_the_steps_of_a_transform_are_one_launch() -> None:
    """Of sizes that are no powers of two, of a batch that is known and one that is not, of either type."""
    compare("turned_rows", complex_numbers(3, 60))
    compare("turned_twice", complex_numbers(2, 3, 64).astype(np.complex128))
    compare("turned_from_real", numbers(3, 128))
    compare("turned_to_real", complex_numbers(3, 9, 5))
    assert [kernel_names(name) for name in ("turned_rows", "turned_twice")] == [["0_1"], ["0_1"]]


@pytest.mark.one_in(16)
def test_a_long_transform_goes_in_groups_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first group has columns that come after it beside it, the last those that came before."""
    monkeypatch.setattr(fourier, "TOGETHER", 64)
    monkeypatch.setattr(line_chains, "MOST_NEAR", 512)
    compare("turned_in_groups", complex_numbers(2, 512))
    assert kernel_names("turned_in_groups") == ["0", "1_2"]


@pytest.mark.one_in(8)
def test_steps_of_primes_are_joined() -> None:
    """Such a step could write its first number before it has read all others, in memory that both have."""
    compare("turned_by_primes", complex_numbers(2, 343))
    assert kernel_names("turned_by_primes") == ["0_1_2"]


@pytest.mark.one_in(8)
def test_joined_steps_write_no_memory_that_other_programs_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first step reads and the last one writes were never there at once while they were launches."""
    monkeypatch.setattr(fourier, "TOGETHER", 64)
    monkeypatch.setattr(line_chains, "MOST_NEAR", 512)
    gpu = gpu_pass(PLATFORMS["sm_80"].schedule)
    lowered = run_passes(tile_of(FILE, "turned_and_back", "sm_80"), [gpu], verify=True)
    launches = [op for host in lowered.ops for op in host.walk() if op.name == "tile.launch"]
    assert any(str(op.attrs["kernel"]).endswith("1.2") for op in launches)
    for launch in launches:
        made = dict.fromkeys(value.defining_op for value in launch.operands)
        slots = [op.attrs["slot"] for op in made if op is not None and op.attrs.get("role") == "workspace"]
        assert len(slots) == len(set(slots))


@pytest.mark.one_in(4)
def test_narrow_types() -> None:
    import ml_dtypes

    compare("narrow", np.concatenate([numbers(300) * s for s in (1, 100, 1e-3)]).astype(ml_dtypes.float8_e4m3fn))


def assert_ends_alike(name: str, *args: np.ndarray) -> None:
    with pytest.raises(TesseraError) as there:
        getattr(on_cpu(), name)(*args)
    with pytest.raises(TesseraError) as here:
        emulated(name)(*args)
    assert said(here.value) == said(there.value)


@pytest.mark.one_in(2)
def test_a_bad_index_ends_the_call_as_on_a_cpu() -> None:
    assert_ends_alike("rows_at", numbers(9, 70), np.array([3, 9, 0], np.int32))


@pytest.mark.one_in(8)
def test_a_size_without_a_value_ends_the_call_where_it_is_used() -> None:
    x, none, low, high = numbers(6), numbers(0), np.float32(-100.0), np.float32(100.0)
    compare("halves", x, numbers(2), low)
    compare("halves", x, none, high)
    assert_ends_alike("halves", x, none, low)


@pytest.mark.one_in(16)
def test_what_is_printed_and_asserted(capsys: pytest.CaptureFixture[str]) -> None:
    compare("told", np.array([1.0, 2.0], np.float32))
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == "3.0 1.0"
    assert_ends_alike("told", np.array([-1.0, 2.0], np.float32))
