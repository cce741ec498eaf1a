"""`tessera train`: steps, checkpoints that resume to the same bits, plots, interruptions, and damaged files."""

from __future__ import annotations

import os
import signal
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera.checkpoint import Checkpoint, leaves_of, load_checkpoint, save_checkpoint
from tessera.safetensors import read_safetensors
from tesserac import cli
from tesserac.commands import training
from tesserac.commands.loss_plot import loss_plot
from tests.support.caches import new_cache
from tests.support.paths import ROOT
from tests.support.sampling import spread

PROGRAM = """
struct Line[D]:
    w: Tensor[D, f32] = normal(D)
    b: Tensor[f32] = cast(0.0, f32)

struct State[D]:
    line: Line[D]
    spare: (Tensor[i32], Tensor[2, f64])

def init(seed: int = 0) -> State[3]:
    return State(line=Line[3](seed=seed), spare=(cast(0, i32), zeros(2, dtype=f64)))

def data() -> (Tensor[8, 3, f32], Tensor[8, f32]):
    x = normal(8, 3, seed=7)
    return x, sum(x, axis=1)

def loss(m: Line[D], x: Tensor[N, D, f32], y: Tensor[N, f32]) -> Tensor[f32]:
    return mean((x @ m.w + m.b - y) ** 2)

def step(s: State[D], x: Tensor[N, D, f32], y: Tensor[N, f32]) -> (State[D], Tensor[f32]):
    noisy = x + 0.01 * normal(N, D)
    l, g = value_and_grad(loss)(s.line, noisy, y)
    return State(line=s.line - 0.1 * g, spare=(s.spare[0] + 1, s.spare[1])), l

def evaluate(s: State[D], x: Tensor[N, D, f32], y: Tensor[N, f32]) -> Tensor[f32]:
    return loss(s.line, x, y)
"""

Train = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def train(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> Train:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", cache)
    Path("line.tess").write_text(PROGRAM)

    def call(*words: str, file: str = "line.tess") -> tuple[int, str, str]:
        status = cli.main(cli.runner, "tessera", ["train", file, *words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return status, captured.out, captured.err

    return call


@pytest.mark.one_in(8)
def test_resumed_is_the_same_to_the_bit(train: Train) -> None:
    """The step draws from the module's random stream, whose place must be found again too."""
    assert train("--steps", "9", "--checkpoint", "straight")[0] == 0
    assert train("--steps", "4", "--checkpoint", "parts")[0] == 0
    assert read_safetensors("parts")["state.spare.0"] == 4
    assert train("--steps", "9", "--checkpoint", "parts", "--resume", "--threads", "1")[0] == 0
    assert Path("straight").read_bytes() == Path("parts").read_bytes()
    assert train("--steps", "9", "--checkpoint", "other", "--seed", "1")[0] == 0
    assert Path("straight").read_bytes() != Path("other").read_bytes()


@pytest.mark.one_in(12)
def test_a_step_may_take_the_memory_of_its_state(train: Train) -> None:
    Path("given.tess").write_text(PROGRAM.replace("\ndef step(", "\n@export(donate=(s,))\ndef step("))
    assert train("--steps", "5", "--checkpoint", "kept")[0] == 0
    assert train("--steps", "3", "--checkpoint", "given", "--save-every", "1", file="given.tess")[0] == 0
    assert train("--steps", "5", "--checkpoint", "given", "--resume", file="given.tess")[0] == 0
    assert Path("kept").read_bytes() == Path("given").read_bytes()


@pytest.mark.one_in(6)
def test_says_losses_and_draws_them(train: Train) -> None:
    status, out, _ = train("--steps", "30", "--plot", "loss.svg")
    assert status == 0
    losses = {int(line.split()[1]): float(line.split()[3]) for line in out.splitlines() if line.startswith("step")}
    assert list(losses) == [1, 10, 20, 30] and losses[30] < losses[1]
    assert "evaluate: Tensor[f32]" in out and "wrote loss.svg" in out
    picture = xml.etree.ElementTree.parse("loss.svg").getroot()
    curve = next(item for item in picture if item.tag.endswith("polyline"))
    assert len(curve.attrib["points"].split()) == 30


def interrupting(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Ctrl-C in the middle of a step."""
    one_step = training._Run._one_step

    def step(self: training._Run, function: object) -> None:
        if self.step == after - 1:
            os.kill(os.getpid(), signal.SIGINT)
        one_step(self, function)  # type: ignore[arg-type]

    monkeypatch.setattr(training._Run, "_one_step", step)


@pytest.mark.one_in(3)
def test_an_interruption_loses_nothing(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    train("--steps", "6", "--checkpoint", "straight", "--seed", "3")
    with monkeypatch.context() as patch:
        interrupting(patch, 4)
        status, _, err = train("--steps", "6", "--seed", "3")
    assert status == 130 and "stopped after step 4" in err
    words = err.rpartition("go on: tessera train line.tess ")[2].split()
    assert train(*words)[0] == 0
    assert Path("line.checkpoint").read_bytes() == Path("straight").read_bytes()


@pytest.mark.one_in(12)
def test_a_second_interruption_does_not_overwrite_the_first(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 2)
    assert "line.checkpoint" in train("--steps", "5")[2]
    assert "line-2.checkpoint" in train("--steps", "5")[2]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_refused_and_stays(train: Train, damage: str) -> None:
    train("--steps", "2", "--checkpoint", "c")
    whole = Path("c").read_bytes()
    flipped = whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
    content = {"cut": whole[:-7], "flip": flipped, "empty": b"", "text": b"no checkpoint"}[damage]
    Path("c").write_bytes(content)
    status, _, err = train("--steps", "4", "--checkpoint", "c", "--resume")
    assert status == 1 and err.startswith("error[E0937]: cannot resume from `c`")
    assert Path("c").read_bytes() == content


@pytest.mark.one_in(6)
def test_a_checkpoint_of_another_state_is_refused(train: Train) -> None:
    train("--steps", "1", "--checkpoint", "c")
    Path("line.tess").write_text(PROGRAM.replace("[3]", "[4]").replace("8, 3", "8, 4"))
    status, _, err = train("--steps", "2", "--checkpoint", "c", "--resume")
    assert status == 1 and "`state.line.w` is float32[3] there, but float32[4] in the program" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps", "3", "--resume"], "--resume goes with --checkpoint"),
        (["--steps", "3", "--checkpoint", "line.tess"], "is there already"),
        (["--steps", "3", "--checkpoint", "c", "--resume", "--seed", "1"], "leave --seed out"),
        (["--steps", "3", "--plot", "nowhere/p.svg"], "no such folder"),
    ],
)
def test_misuse_is_told_before_any_step(train: Train, words: list[str], said: str) -> None:
    status, out, err = train(*words)
    assert status == 2 and said in err and not out


def test_resuming_from_a_file_that_is_not_there(train: Train) -> None:
    status, _, err = train("--steps", "3", "--checkpoint", "nothing", "--resume")
    assert status == 1 and err.startswith("error[E0901]")


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("def init() -> Tensor[f32]:\n    return cast(1.0, f32)\n", "E0913"),
        ("def init() -> Tensor[f32]:\n    return cast(1.0, f32)\ndef step(s: Tensor[f32]):\n    return s\n", "E0920"),
        ("def init():\n    return ones(2)\ndef step(s: Tensor[N, f32]):\n    return s[1:], sum(s)\n", "E0920"),
    ],
)
def test_a_program_that_cannot_be_trained(train: Train, program: str, code: str) -> None:
    Path("p.tess").write_text(program)
    status, _, err = train("--steps", "3", file="p.tess")
    assert status == 1 and f"error[{code}]" in err


def test_a_loss_that_is_no_number_ends_it_and_keeps_what_was_saved(train: Train) -> None:
    text = "def init() -> Tensor[f32]:\n    return cast(3.0, f32)\n"
    Path("p.tess").write_text(text + "def step(s: Tensor[f32]):\n    return s - 1.0, sqrt(s - 2.0)\n")
    status, _, err = train("--steps", "9", "--checkpoint", "c", "--save-every", "1", file="p.tess")
    assert status == 1 and "the loss of step 3 is nan; c has the state after step 2" in err
    assert load_checkpoint("c", np.float32(0)) == Checkpoint(np.float32(1.0), 2, (1.0, 0.0))


def test_every_kind_of_state_comes_back(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    state = ({"a": np.arange(3, dtype="i8"), "b": [np.float64(0.1), None]}, (np.zeros((0, 2), "f2"),))
    save_checkpoint(path, Checkpoint(state, 5, (1.0, float("inf"))))
    found = load_checkpoint(path, state)
    assert found.step == 5 and found.losses == (1.0, float("inf"))
    again = found.state
    assert isinstance(again, tuple) and list(again[0]) == ["a", "b"] and again[0]["b"] == [np.float64(0.1), None]
    assert again[1][0].shape == (0, 2) and np.array_equal(again[0]["a"], np.arange(3))
    with pytest.raises(tessera.TesseraError, match="E0937"):
        save_checkpoint(path, Checkpoint({"text": "no tensor"}, 0, ()))
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_operators_of_a_state_are_kept_as_their_parts(tmp_path: Path) -> None:
    path, op, d = str(tmp_path / "c"), tessera.op, np.arange(4, dtype="f4")
    state = {"A": op.kronecker(op.dense(np.ones((2, 2), "f4")), op.diag(d)), "B": 0.5 * op.circulant(d) + op.eye(4)}
    save_checkpoint(path, Checkpoint(state, 5, ()))
    start = {
        "A": op.kronecker(op.dense(np.zeros((2, 2), "f4")), op.diag(d)),
        "B": 0.5 * op.circulant(d * 0) + op.eye(4),
    }
    found = load_checkpoint(path, start).state
    assert isinstance(found, dict) and found["A"].flags == state["A"].flags
    assert all(np.array_equal(found[name].to_dense(), state[name].to_dense()) for name in state)
    for B in (op.circulant(d), 0.25 * op.circulant(d) + op.eye(4)):
        with pytest.raises(tessera.TesseraError, match="of another state"):
            load_checkpoint(path, start | {"B": B})
    program = tessera.compile("def made(d: Tensor[N, f32]): return op.implicit(lambda v: d * v, lambda v: d * v, N)\n")
    with pytest.raises(tessera.TesseraError, match="made of functions"):
        save_checkpoint(path, Checkpoint(program.made(d), 0, ()))


@pytest.mark.parametrize("losses", [[1.0], [0.0, 0.0], [1.0, float("nan"), 0.5], [-1.0, 2.0]])
def test_any_losses_can_be_drawn(losses: list[float]) -> None:
    assert "nan" not in loss_plot(losses, "a < b")
    xml.etree.ElementTree.fromstring(loss_plot(losses, "a < b"))


EXAMPLES = ROOT / "examples"


def three_steps(module: tessera.Module, threads: int) -> list[bytes]:
    """The bits of the state and the losses."""
    before = tessera.get_num_threads()
    tessera.set_num_threads(threads)
    try:
        state, data = module.init(0), module.data() if "data" in dir(module) else ()
        losses = []
        for _ in range(3):
            state, loss = module.step(state, *(data if isinstance(data, tuple) else (data,)))
            losses.append(np.asarray(loss).tobytes())
    finally:
        tessera.set_num_threads(before)
    return [*losses, *(array.tobytes() for _, array in leaves_of(state, "state"))]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", spread(["digits_cnn", "char_transformer", "kovasznay"], 1))
def test_examples_train_to_the_same_bits(name: str) -> None:
    module = tessera.load(EXAMPLES / f"{name}.tess")
    first = three_steps(module, 1)
    assert three_steps(module, 1) == first
    assert three_steps(module, 2) == first


@pytest.mark.one_in(4)
def test_the_exact_flow_fulfils_the_equations_of_the_example() -> None:
    """Central differences of the exact solution leave nothing of momentum and divergence."""
    exact = tessera.load(EXAMPLES / "kovasznay.tess").exact
    x, h = np.random.default_rng(0).uniform(-0.5, 1, (50, 2)), 1e-4
    along = [np.array([h, 0.0]), np.array([0.0, h])]
    first = [(exact(x + d) - exact(x - d)) / (2 * h) for d in along]
    second = sum((exact(x + d) - 2 * exact(x) + exact(x - d)) / h**2 for d in along)
    change = exact(x)[:, :1] * first[0] + exact(x)[:, 1:2] * first[1] - second / 40
    assert np.abs(change[:, 0] + first[0][:, 2]).max() < 1e-5
    assert np.abs(change[:, 1] + first[1][:, 2]).max() < 1e-5
    assert np.abs(first[0][:, 0] + first[1][:, 1]).max() < 1e-6
