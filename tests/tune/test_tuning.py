"""Schedules that measuring finds: where they are kept, who takes them, and what damages do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.tuning import Wanted, read_tuning_sizes, tune
from tesserac.driver.session import ProgramError, Session
from tesserac.graph.passes.tune_products import product_digest, products
from tesserac.ir.kernels import KERNEL
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import AARCH64
from tesserac.tune.measure import Measured, measure
from tesserac.tune.schedules import DamagedSchedules, Entry, Schedules, default_path, read_schedules
from tesserac.types.dims import Dim

PROGRAM = """
@kernel{how}
def f(a: KTile[S, K, f32], b: KTile[K, L, f32]) -> Tile[S, L, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc
"""
SPACE = ".autotune(space=dict(BM=[1, 64], BN=[48]), metric='latency_ms', budget_ms=20)"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path / "cache"))


def entry(digest: str, settings: dict[str, int], sizes: dict[str, int] | None = None, arch: str = "aarch64") -> Entry:
    return Entry("f", digest, arch, sizes or {}, settings, 1.0, 2.0)


def digest_of(program: str) -> str:
    session, source = Session(), SourceFile("m.tess", program)
    forms = session.levels(source, session.function(source, "f"), AARCH64).forms
    return next(str(op.attrs["digest"]) for op in forms.walk() if op.name == KERNEL)


def blocks(program: str, schedules: Schedules | None) -> tuple[int, ...]:
    """Of terms, rows and columns."""
    session, source = Session(schedules=schedules), SourceFile("m.tess", program)
    host = session.levels(source, session.function(source, "f"), AARCH64).schedule
    (launch,) = [op for op in host.walk() if op.attrs.get("kind") == "program"]
    return tuple(loop.block for loop in launch_loops(launch)[1:])


def test_the_user_goes_before_the_tuner_and_that_before_the_compiler() -> None:
    plain = PROGRAM.format(how="")
    found = Schedules((entry(digest_of(plain), {"m": 24, "n": 40}),))
    assert blocks(plain, Schedules())[1:] == (128, 128)
    assert blocks(plain, found)[1:] == (24, 40)
    assert blocks(PROGRAM.format(how=".schedule(Schedule(BM=8))"), found)[1:] == (8, 40)
    assert blocks(PROGRAM.format(how=SPACE), Schedules())[1:] == (1, 48)
    assert blocks(PROGRAM.format(how=SPACE), found)[1:] == (24, 40)


def test_a_schedule_is_found_by_what_the_kernel_computes() -> None:
    plain = PROGRAM.format(how="")
    assert digest_of(plain) == digest_of("# a comment\n" + plain)
    assert digest_of(plain) == digest_of(PROGRAM.format(how=SPACE))
    for changed in (plain.replace("f32", "f64"), plain.replace("return acc", "return acc * 2.0")):
        assert digest_of(changed) != digest_of(plain)
    found = Schedules((entry("x", {"m": 1}, {"S": 8}), entry("x", {"m": 2}, {"S": 16}), entry("x", {"m": 3}, arch="b")))
    assert found.find("x", "aarch64", {"S": Dim.sym("S")}) == {"m": 2}
    assert found.find("x", "aarch64", {"S": Dim.const(8)}) == {"m": 1}
    assert found.find("x", "aarch64", {"S": Dim.const(9)}) == {}
    assert found.find("x", "b", {}) == {"m": 3} and found.find("y", "b", {}) == {}


@pytest.mark.parametrize("damage", ["", "{}", "[1]", "cut", "changed", "\0"])
def test_a_damaged_cache_is_an_error_and_never_a_schedule(damage: str) -> None:
    Schedules((entry("x", {"m": 64}),)).write(default_path())
    text = default_path().read_text()
    wrong = {"cut": text[:40], "changed": text.replace("64", "32")}.get(damage, damage)
    default_path().write_text(wrong)
    with pytest.raises(DamagedSchedules):
        read_schedules(default_path())
    source = SourceFile("m.tess", PROGRAM.format(how=""))
    session = Session()
    with pytest.raises(ProgramError) as caught:
        session.levels(source, session.function(source, "f"), AARCH64)
    assert caught.value.diagnostics[0].code == "E0514"
    with pytest.raises(UsageMistake, match="is damaged"):
        tune(Session(), Wanted("", {}, None, str(default_path()), None), lambda done, count: None)


def test_what_is_written_is_read_and_a_new_entry_replaces_an_old_one(tmp_path: Path) -> None:
    one, other = entry("x", {"m": 64}, {"S": 8}), entry("x", {"m": 32}, {"S": 8})
    Schedules((one,)).with_entries([other, entry("y", {})]).write(tmp_path / "s.json")
    assert read_schedules(tmp_path / "s.json").entries == (other, entry("y", {}))
    assert read_schedules(tmp_path / "none.json") == Schedules()


def test_what_is_faster_by_less_than_noise_is_not_faster() -> None:
    assert Measured(1.0, 0.9, 1.1, 10).is_faster(Measured(1.3, 1.2, 1.5, 10))
    assert not Measured(1.0, 0.9, 1.25, 10).is_faster(Measured(1.3, 1.2, 1.5, 10))
    calls: list[int] = []
    assert measure(lambda: calls.append(0), 0.0).runs == 10 and len(calls) == 13


def test_products_take_what_was_found_for_their_kind() -> None:
    text = "def f(a: Tensor[S, K, f32], b: Tensor[K, L, f32]): return {}\n"
    session, source = Session(), SourceFile("m.tess", text.format("a @ b"))
    (op,) = products(session.levels(source, session.function(source, "f"), AARCH64).forms)
    found = Schedules((entry(product_digest(op), {"m": 24, "n": 192, "k": 128}),))

    def first(program: str) -> list[int]:
        session, source = Session(schedules=found), SourceFile("m.tess", program)
        host = session.levels(source, session.function(source, "f"), AARCH64).schedule
        return next([loop.block for loop in launch_loops(o)] for o in host.walk() if o.attrs.get("kind") == "contract")

    assert first(text.format("a @ b")) == [24, 192, 128]
    assert first(text.format("op.matmul(a, b, tile_shape=(96, 96, 64))")) == [96, 96, 64]
    assert first(text.format("a @ b").replace("f32", "f64")) != [24, 192, 128]


@pytest.mark.one_in(12)
@pytest.mark.slow
def test_a_planted_slow_default_is_found_once_and_taken_by_all(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tess", tmp_path / "out.json"
    path.write_text(PROGRAM.format(how=SPACE))
    sizes, shown = read_tuning_sizes(["S=192,K=96", "L=96"]), list[tuple[int, int]]()
    wanted = Wanted(str(path), sizes, None, None, str(out))
    text = tune(Session(), wanted, lambda done, count: shown.append((done, count))).output
    assert "taken: m=64 n=48" in text and "2 of 2 schedules measured" in text and shown[-1] == (3, 3), text
    session, source = Session(), SourceFile(str(path), path.read_text())
    host = session.levels(source, session.function(source, "f"), AARCH64).schedule  # by the cache alone
    (launch,) = [op for op in host.walk() if op.attrs.get("kind") == "program"]
    arch = json.loads(out.read_text())["entries"][0]["arch"]
    assert launch_loops(launch)[2].block == (64 if arch == "aarch64" else 1)
    default_path().unlink()
    tune(Session(), Wanted("", {}, None, str(out), None), lambda done, count: None)
    assert read_schedules(default_path()) == read_schedules(out)


@pytest.mark.parametrize(
    ("place", "sizes", "said"),
    [
        ("{path}:f", {"S": 8}, "--sizes K=1024,L=1024"),
        ("{path}:g", {}, "g"),
        ("{path}", {}, "names a space"),
    ],
)
def test_what_cannot_be_tuned_is_said(place: str, sizes: dict[str, int], said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tess"
    path.write_text(PROGRAM.format(how=""))
    with pytest.raises(UsageMistake, match=said):
        tune(Session(), Wanted(place.format(path=path), sizes, None, None, None), lambda done, count: None)
    with pytest.raises(UsageMistake, match="--sizes takes"):
        read_tuning_sizes(["S"])
