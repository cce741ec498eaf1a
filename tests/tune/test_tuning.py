"""Schedules that measuring finds: where they are kept, who takes them, and what damages do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tessera.errors import TesseraError
from tesserac.base.source import SourceFile
from tesserac.commands import tuning
from tesserac.commands.building import build_bundle
from tesserac.commands.outcome import INTERRUPTED, UsageMistake
from tesserac.commands.tuning import Wanted, arguments_for, tune
from tesserac.commands.tuning_runs import Run, find_bench, run_candidates
from tesserac.commands.tuning_sizes import read_tuning_sizes
from tesserac.commands.tuning_tasks import MOST_CANDIDATES, find_tasks
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.graph.passes.tune_forms import form_digest, tunable_forms
from tesserac.ir.core import Op
from tesserac.ir.kernels import KERNEL
from tesserac.schedule.dialect import launch_loops, launch_units
from tesserac.schedule.machine import AARCH64, SM_80, SM_90A, Machine
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
SIZES = {"S": 256, "K": 64, "L": 64}
SPACE = ".autotune(space=dict(BM=[1, 260], BN=[48]), metric='latency_ms', budget_ms=20)"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path / "cache"))


def entry(
    digest: str, settings: dict[str, int], sizes: dict[str, int] | None = None, arch: str = "aarch64", cores: int = 4
) -> Entry:
    return Entry("f", digest, arch, cores, sizes or {}, settings, 1.0, 2.0)


def settings_of(found: Schedules, digest: str, dims: dict[str, Dim], machine: Machine = AARCH64) -> object:
    entry = found.find(digest, machine, dims)
    return None if entry is None else entry.settings


def digest_of(program: str) -> str:
    session, source = Session(), SourceFile("m.tess", program)
    forms = session.levels(source, session.function(source, "f"), AARCH64).forms
    return next(str(op.attrs["digest"]) for op in forms.walk() if op.name == KERNEL)


def launched(program: str, schedules: Schedules | None) -> Op:
    session, source = Session(schedules=schedules), SourceFile("m.tess", program)
    host = session.levels(source, session.function(source, "f"), AARCH64).schedule
    (launch,) = [op for op in host.walk() if op.attrs.get("kind") == "program"]
    return launch


def blocks(program: str, schedules: Schedules | None) -> tuple[int, ...]:
    """Of terms, rows and columns."""
    return tuple(loop.block for loop in launch_loops(launched(program, schedules))[1:])


@pytest.mark.one_in(2)
def test_the_user_goes_before_the_tuner_and_that_before_the_compiler() -> None:
    plain = PROGRAM.format(how="")
    found = Schedules((entry(digest_of(plain), {"m": 24, "n": 40}),))
    assert blocks(plain, Schedules())[1:] == (128, 128)
    assert blocks(plain, found)[1:] == (24, 40)
    mixed = launched(PROGRAM.format(how=".schedule(Schedule(BM=8))"), found)
    assert [loop.block for loop in launch_loops(mixed)[2:]] == [8, 40]
    reason = str(mixed.attrs["reason"])
    assert "T_m of 8, as its schedule says" in reason and "T_n of 40, as tuning found" in reason
    assert blocks(PROGRAM.format(how=SPACE), Schedules())[1:] == (1, 48)  # of a space what is nearest to 128
    assert blocks(PROGRAM.format(how=SPACE), found)[1:] == (24, 40)


@pytest.mark.one_in(2)
def test_a_schedule_is_found_by_what_the_kernel_computes() -> None:
    plain = PROGRAM.format(how="")
    assert digest_of(plain) == digest_of("# a comment\n" + plain)
    assert digest_of(plain) == digest_of(PROGRAM.format(how=SPACE))
    for changed in (plain.replace("f32", "f64"), plain.replace("return acc", "return acc * 2.0")):
        assert digest_of(changed) != digest_of(plain)
    sized = [entry("x", {"m": 1}, {"S": 8}), entry("x", {"m": 2}, {"S": 16})]
    found = Schedules((*sized, entry("x", {"m": 3}, arch="sm_80")))
    assert settings_of(found, "x", {"S": Dim.sym("S")}) == {"m": 2}
    assert settings_of(found, "x", {"S": Dim.const(8)}) == {"m": 1}
    assert settings_of(found, "x", {"S": Dim.const(9)}) is None
    assert settings_of(found, "x", {}, SM_80) == {"m": 3} and settings_of(found, "y", {}, SM_80) is None


def test_a_machine_with_as_many_cores_goes_before_others_of_its_kind() -> None:
    few, many = entry("x", {"m": 1}, cores=4), entry("x", {"m": 2}, cores=64)
    assert settings_of(Schedules((few, many)), "x", {}) == {"m": 1}
    assert settings_of(Schedules((few, many)), "x", {}, replace(AARCH64, cores=64)) == {"m": 2}
    assert settings_of(Schedules((few, many)), "x", {}, replace(AARCH64, cores=3)) == {"m": 2}
    assert settings_of(Schedules((replace(few, compiler="0"),)), "x", {}) is None


@pytest.mark.parametrize("damage", ["", "{}", "[1]", "cut", "changed", "later", "\0"])
def test_a_damaged_cache_is_an_error_and_never_a_schedule(damage: str) -> None:
    Schedules((entry("x", {"m": 64}),)).write(default_path())
    text = default_path().read_text()
    wrong = {"cut": text[:40], "changed": text.replace("64", "32"), "later": text.replace(": 2,", ": 3,")}
    default_path().write_text(wrong.get(damage, damage))
    with pytest.raises(DamagedSchedules):
        read_schedules(default_path())
    source = SourceFile("m.tess", PROGRAM.format(how=""))
    session = Session()
    with pytest.raises(ProgramError) as caught:
        session.levels(source, session.function(source, "f"), AARCH64)
    assert caught.value.diagnostics[0].code == "E0514"
    with pytest.raises(ProgramError, match="is damaged") as caught:
        tune(Session(), Wanted("", {}, None, str(default_path()), None), lambda done, count: None)
    assert caught.value.diagnostics[0].code == "E0514"
    assert ("version 3" in caught.value.diagnostics[0].title) == (damage == "later")


def test_what_is_written_is_read_and_a_new_entry_replaces_an_old_one(tmp_path: Path) -> None:
    one, other = entry("x", {"m": 64}, {"S": 8}), entry("x", {"m": 32}, {"S": 8})
    Schedules((one,)).with_entries([other, entry("y", {})]).write(tmp_path / "s.json")
    assert read_schedules(tmp_path / "s.json").entries == (other, entry("y", {}))
    assert read_schedules(tmp_path / "none.json") == Schedules()


def test_what_is_faster_by_less_than_noise_is_not_faster() -> None:
    assert Measured(1.0, 0.9, 1.1, 10).is_faster(Measured(1.3, 1.2, 1.5, 10))
    assert not Measured(1.0, 0.9, 1.25, 10).is_faster(Measured(1.3, 1.2, 1.5, 10))


def test_all_candidates_run_in_turn_and_hopeless_ones_ten_times() -> None:
    ran: list[str] = []

    def timed(name: str, ms: float) -> Callable[[], float]:
        return lambda: ran.append(name) or ms  # type: ignore[func-returns-value]

    default, good, bad = measure([timed("a", 1.0), timed("b", 0.5), timed("c", 9.0)], 135.0).measured
    assert (default.runs, good.runs, bad.runs) == (30, 30, 10) and (good.ms, bad.ms) == (0.5, 9.0)
    assert "".join(ran).startswith("aaabbbcccabcabc"), "three runs warm up"


@pytest.mark.parametrize(("runs", "kept"), [(12, False), (40, True)])
def test_an_interrupt_ends_the_budget_and_keeps_what_has_ten_runs(runs: int, kept: bool) -> None:
    left = [runs]

    def timed() -> float:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return 1.0

    if not kept:
        with pytest.raises(KeyboardInterrupt):
            measure([timed, timed], 1e9)
        return
    times = measure([timed, timed], 1e9)
    assert times.interrupted and [found.runs for found in times.measured] == [17, 17]


@pytest.mark.one_in(4)
def test_a_task_that_is_interrupted_while_it_measures_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one behind it is not begun."""
    fast = Run([({}, Measured(2.0, 1.9, 2.1, 10)), ({"n": 64}, Measured(1.0, 0.9, 1.1, 10))], interrupted=True)
    ran = list[object]()
    monkeypatch.setattr(tuning, "run_candidates", lambda *_: ran.append(_) or fast)  # type: ignore[func-returns-value]
    path = tmp_path / "m.tess"
    path.write_text("def f(x: Tensor[S, 8, f32]): return sum(x, axis=0), max(x, axis=0)\n")
    outcome = tune(Session(), Wanted(f"{path}:f", {"S": 64}, 1, None, None), lambda done, count: None)
    assert outcome.status == INTERRUPTED and "taken: n=64" in outcome.output and len(ran) == 1


def test_products_take_what_was_found_for_their_kind() -> None:
    text = "def f(a: Tensor[S, K, f32], b: Tensor[K, L, f32]): return {}\n"
    session, source = Session(), SourceFile("m.tess", text.format("a @ b"))
    (op,) = tunable_forms(session.levels(source, session.function(source, "f"), AARCH64).forms)
    found = Schedules((entry(form_digest(op), {"m": 24, "n": 192, "k": 128}, {"m": 64}),))

    def first(program: str) -> list[int]:
        session, source = Session(schedules=found), SourceFile("m.tess", program)
        host = session.levels(source, session.function(source, "f"), AARCH64).schedule
        return next([loop.block for loop in launch_loops(o)] for o in host.walk() if o.attrs.get("kind") == "contract")

    assert first(text.format("a @ b")) == [24, 192, 128]
    assert first(text.format("op.matmul(a, b, tile_shape=(96, 96, 64))")) == [96, 96, 64]
    assert first(text.format("a @ b").replace("f32", "f64")) != [24, 192, 128]
    assert first(text.format("a @ b").replace("[S,", "[64,")) == [24, 192, 128]
    assert first(text.format("a @ b").replace("[S,", "[65,")) != [24, 192, 128], "it was measured for 64 rows"


@pytest.mark.parametrize(("machine", "settings"), [(AARCH64, {"n": 16}), (SM_80, {"n": 8, "warps": 2})])
def test_reductions_take_what_was_found_for_their_kind(machine: Machine, settings: dict[str, int]) -> None:
    source, session = SourceFile("m.tess", "def f(x: Tensor[M, N, f32]): return sum(x, axis=0)\n"), Session()
    (op,) = tunable_forms(session.levels(source, session.function(source, "f"), machine).forms)
    found = Schedules((entry(form_digest(op), settings, arch=machine.arch, cores=machine.cores),))
    session = Session(schedules=found)
    host = session.levels(source, session.function(source, "f"), machine).schedule
    launch = [op for op in host.walk() if op.attrs.get("kind") == "rows"][-1]
    assert launch_loops(launch)[0].block == settings["n"] and "as tuning found" in str(launch.attrs["reason"])
    assert launch_units(launch).warps == settings.get("warps", 1) and session.taken[0].settings == settings


@pytest.mark.one_in(12)
@pytest.mark.slow
def test_a_planted_slow_default_is_found_once_and_taken_by_all(tmp_path: Path) -> None:
    path, out, own = tmp_path / "m.tess", tmp_path / "out.json", tmp_path / "own"
    path.write_text(PROGRAM.format(how=SPACE[:-1] + f", cache='{own}')"))
    sizes, shown = read_tuning_sizes(["S=192,K=96", "L=96"]), list[tuple[int, int]]()
    wanted = Wanted(str(path), sizes, None, None, str(out))
    for _ in range(5):  # on a busy machine twelve times as fast can be within the noise, and then nothing is taken
        text = tune(Session(), wanted, lambda done, count: shown.append((done, count))).output
        if "beyond noise" not in text:
            break
    assert "taken: m=260 n=48" in text and "2 of 2 schedules measured" in text and shown[-1] == (3, 3), text
    found = read_schedules(out)
    assert read_schedules(own / "schedules.json") == found == read_schedules(default_path())
    default_path().unlink()
    assert taken_elsewhere(path) == ["m=260 n=48", "0 measured"], "by what the kernel names alone"
    build_bundle(Session(), str(path), None, "cpu", None, {})
    (own / "schedules.json").unlink()
    assert taken_elsewhere(path) == ["0 measured"]
    tune(Session(), Wanted("", {}, None, str(path.with_suffix(".tessb")), None), lambda done, count: None)
    assert read_schedules(default_path()) == found and taken_elsewhere(path) == ["m=260 n=48", "0 measured"]


def taken_elsewhere(path: Path) -> list[str]:
    """What another process takes of what was found, and that it measures nothing."""
    program = f"""
import sys
from pathlib import Path
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.target.cpu.build import host_platform
path = {str(path)!r}
session, source = Session(), SourceFile(path, Path(path).read_text())
session.levels(source, session.function(source, "f"), host_platform().schedule)
for text in dict.fromkeys(" ".join(f"{{k}}={{v}}" for k, v in e.settings.items()) for e in session.taken):
    print(text)
print("measured" if "tesserac.tune.measure" in sys.modules else "0 measured")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_an_empty_or_foreign_bundle_has_no_schedules(tmp_path: Path) -> None:
    (tmp_path / "m.tessb").write_bytes(b"no bundle")
    with pytest.raises(UsageMistake, match=r"m\.tessb"):
        tune(Session(), Wanted("", {}, None, str(tmp_path / "m.tessb"), None), lambda done, count: None)


@pytest.mark.one_in(4)
def test_every_kind_of_work_is_a_task_on_every_machine() -> None:
    text = "def f(a: Tensor[S, K, {0}], b: Tensor[K, L, {0}]): return sum(abs(a @ b), axis=0) + sum(abs(b @ b.T))\n"
    for machine, dtype in ((AARCH64, "f32"), (SM_80, "f32"), (SM_90A, "bf16 @accum(f32)")):
        session, source = Session(), SourceFile("m.tess", text.format(dtype))
        function = session.function(source, "f")
        forms = session.levels(source, function, machine).forms
        sizes = {"S": 256, "K": 512, "L": 512}
        tasks = list(find_tasks(source, function, forms, machine, sizes))
        titles = [task.title.split(" of ")[0] for task in tasks]
        assert titles.count("product") == 2 and "sum over rows" in titles, titles
        for task in tasks:
            assert 0 < len(task.tried) <= min(task.every, MOST_CANDIDATES)
            tried = Session(schedules=Schedules((task.entry(task.tried[-1]),)))
            tried.levels(source, tried.function(source, "f"), machine, sizes)
            assert tried.taken[0].settings == task.tried[-1], "a candidate is what is compiled"


@pytest.mark.one_in(12)
def test_what_was_found_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Run([({}, Measured(1.0, 0.9, 1.1, 10)), ({"n": 64}, Measured(1.0, 0.9, 1.1, 10))])
    monkeypatch.setattr(tuning, "run_candidates", lambda *_: measured)
    path = tmp_path / "m.tess"
    path.write_text("def f(x: Tensor[S, 8, f32]): return sum(x, axis=0)\n")
    session, source = Session(schedules=Schedules()), SourceFile(str(path), path.read_text())
    machine = find_bench("cpu").machine
    (op,) = tunable_forms(session.levels(source, session.function(source, "f"), machine).forms)
    known = entry(form_digest(op), {"n": 16}, arch=machine.arch, cores=machine.cores)
    Schedules((known,)).write(default_path())
    wanted = Wanted(f"{path}:f", {"S": 64}, 1, None, None)
    assert "sum over rows" in tune(Session(), wanted, lambda done, count: None).output


@pytest.mark.one_in(4)
def test_what_was_found_before_an_interrupt_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two kinds of work the second is interrupted."""
    fast = Run([({}, Measured(2.0, 1.9, 2.1, 10)), ({"n": 64}, Measured(1.0, 0.9, 1.1, 10))])
    answers: list[object] = [fast]

    def run(*_: object) -> object:
        if not answers:
            raise KeyboardInterrupt
        return answers.pop()

    monkeypatch.setattr(tuning, "run_candidates", run)
    path = tmp_path / "m.tess"
    path.write_text("def f(x: Tensor[S, 8, f32]): return sum(x, axis=0), max(x, axis=0)\n")
    outcome = tune(Session(), Wanted(f"{path}:f", {"S": 64}, 1, None, None), lambda done, count: None)
    assert outcome.status == INTERRUPTED and "taken: n=64" in outcome.output and "is kept" in outcome.remarks
    assert [found.settings for found in read_schedules(default_path()).entries] == [{"n": 64}]


def test_a_candidate_that_does_not_run_is_left_out() -> None:
    """Nor does one with other bits; what is left is measured."""

    class Bench:
        target, machine = "cpu", AARCH64

        def load(self, code: bytes, args: object) -> Callable[[], object]:
            if code == b"no room":
                raise TesseraError("E0931", "error[E0931]: no room\nmore")
            return lambda: code

        def bits(self, result: object) -> bytes:
            return bytes(result[:1])  # type: ignore[index]

        def timed(self, call: Callable[[], object]) -> Callable[[], float]:
            return lambda: 1.0

    class Pool:
        def submit(self, *_: object) -> Pool:
            return self

        def result(self) -> object:
            return codes.pop(0)

    codes: list[object] = [b"a", b"no room", b"b", "impossible", b"a, too"]
    source = SourceFile("m.tess", "def f(x: Tensor[S, 8, f32]): return sum(x, axis=0)\n")
    session = Session(schedules=Schedules())
    function = session.function(source, "f")
    forms = session.levels(source, function, AARCH64).forms
    (task,) = find_tasks(source, function, forms, AARCH64, {"S": 64})
    tried = replace(task, tried=[{"n": n} for n in (1, 2, 3, 4)])
    found = run_candidates(Bench(), Pool(), tried, [], [], 1.0, lambda done, count: None)  # type: ignore[arg-type]
    said = [one if isinstance(one, str) else "measured" for _, one in found.tried]
    assert said == ["measured", "error[E0931]: no room", "its results differ", "impossible", "measured"]


def test_the_space_and_the_cache_of_a_kernel_are_its_own_whoever_calls_it() -> None:
    how = ".autotune(space=dict(BM=[1, 260], BN=[48], warps=[4], swizzle=['xor']), cache='here')"
    caller = "\ndef g(a: Tensor[S, 8, f32], b: Tensor[8, L, f32], i: Tensor[S, i64]): return tanh(f(a[i], b))\n"
    session, source = Session(), SourceFile("m.tess", PROGRAM.format(how=how) + caller)
    function = session.function(source, "g")
    forms = session.levels(source, function, AARCH64).forms
    reached = session.check(source).result.reach(function).values()
    (task,) = find_tasks(source, function, forms, AARCH64, {"S": 256, "L": 64}, reached)
    assert sorted(settings["m"] for settings in task.tried) == [1, 260] and task.every == 2
    assert list(task.useless) == ["warps", "swizzle"] and task.cache == "here"
    assert [array.dtype.str for array in arguments_for(function, {"S": 3, "L": 2})] == ["<f4", "<f4", "<i8"]
    alone = session.function(source, "f")
    (task,) = find_tasks(source, alone, session.levels(source, alone, AARCH64).forms, AARCH64, SIZES, reached)
    assert task.cache == "here", "also where nothing calls it"


@pytest.mark.parametrize(
    ("place", "sizes", "said"),
    [
        ("{path}:f", {"S": 8}, "--sizes K=1024,L=1024"),
        ("{path}:g", {}, "g"),
        ("{path}", {}, "names a space"),
        ("{path}:f", {"S": 8, "K": 8, "L": 8, "Q": 8}, "has a size `Q`: .* has S, K, L"),
        ("{path}:f", {"S": 10**12, "K": 10**9, "L": 8}, "`a` of `f` is \\[1000000000000, 1000000000\\] at these sizes"),
    ],
)
def test_what_cannot_be_tuned_is_said(place: str, sizes: dict[str, int], said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tess"
    path.write_text(PROGRAM.format(how=""))
    with pytest.raises(UsageMistake, match=said):
        tune(Session(), Wanted(place.format(path=path), sizes, None, None, None), lambda done, count: None)
    with pytest.raises(UsageMistake, match="--sizes takes"):
        read_tuning_sizes(["S"])


@pytest.mark.parametrize(
    ("program", "warps"),
    [
        ("def f(x: Tensor[M, 512, f32]): return max(x, axis=1)\n", [1]),
        ("def f(x: Tensor[M, 4096, f32]): return max(x, axis=1)\n", [4]),
        ("def f(x: Tensor[M, N, f32]): return max(x, axis=1)\n", [4, 1]),
        ("def f(x: Tensor[M, 512, f32]): return sum(x, axis=1)\n", [1]),  # one block: there is nothing for a second
        ("def f(x: Tensor[M, N, f32]): return sum(x, axis=1)\n", [4, 8, 6, 10, 8, 6, 4, 3, 1, 1, 1, 1, 1]),
    ],
)
def test_what_tuning_found_for_maxima_is_what_the_compiler_chooses(program: str, warps: list[int]) -> None:
    session, source = Session(schedules=Schedules()), SourceFile("m.tess", program)
    host = session.levels(source, session.function(source, "f"), SM_90A).schedule
    assert [launch_units(op).warps for op in host.walk() if op.attrs.get("kind") == "rows"] == warps
