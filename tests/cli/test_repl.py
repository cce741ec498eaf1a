"""The session at the prompt: what it computes, what it says, how it is stopped; piped, and through a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tesserac.diag.render import PLAIN
from tesserac.repl import loop
from tesserac.repl.apart import Died, run_apart
from tesserac.repl.completion import complete
from tesserac.repl.engine import Engine
from tesserac.repl.lines import LineReader
from tests.support.caches import new_cache
from tests.support.paths import ROOT

CODE = "import sys; from tesserac.cli import tessera; sys.exit(tessera())"
COMMAND = [sys.executable, "-c", CODE, "run"]


class Talk:
    """A session in this process: lines in, what it says out."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.repl = loop.Repl(PLAIN)
        self._capsys = capsys

    def __call__(self, *inputs: str) -> str:
        """The output of the inputs, which must be right."""
        out, err = self.both(*inputs)
        assert err == ""
        return out

    def error(self, *inputs: str) -> str:
        out, err = self.both(*inputs)
        assert out == "" and err
        return err

    def both(self, *inputs: str) -> tuple[str, str]:
        for text in inputs:
            assert self.repl.run(text)
        captured = self._capsys.readouterr()
        assert "E0999" not in captured.err
        return captured.out, captured.err

    def array(self, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        (leaf,) = self.repl.engine.workspace.values[name].leaves
        return leaf


@pytest.fixture
def talk(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    return Talk(capsys)


# ------------------------------------------------------------------------------------------------- values, names


@pytest.mark.one_in(2)
def test_values_are_arrays_kept_between_lines(talk: Talk) -> None:
    assert talk("x = ones(3, 4)") == ""
    assert talk("x @ x.T") == "Tensor[3, 3, f32]\n[[4., 4., 4.],\n [4., 4., 4.],\n [4., 4., 4.]]\n"
    talk("y = x * 2.0; x = x + y")
    assert (talk.array("x") == np.full((3, 4), 3, "f4")).all()
    assert (talk.array("_") == np.full((3, 3), 4, "f4")).all()


@pytest.mark.one_in(12)
def test_random_numbers_come_from_the_stream_of_the_session(talk: Talk) -> None:
    first, second = talk("uniform(3)"), talk("uniform(3)")
    assert first != second
    assert talk("normal(3, seed=1)") == talk("normal(3, seed=1)")
    talk("x = uniform(3)")
    assert talk("x") == talk("x")


def test_values_with_scales_are_kept_and_shown_by_their_parts(talk: Talk) -> None:
    said = talk("w = cast(ones(2, 3) * 127.0, i8 @scale(axis=0))", "w", "cast(w, f32)[1, 2]")
    assert said.startswith("Tensor[2, 3, i8 @scale(axis=0)]\n  q: Tensor[2, 3, i8]")
    assert "  scale: Tensor[2, f32]" in said and "127" in said.splitlines()[-1]


def test_what_compiling_knows_is_known_at_once(talk: Talk) -> None:
    assert talk("n = 3", "n * 2 + 1") == "7\n"
    assert talk("m = n", "n += 1", "(n, m)") == "(4, 3)\n"  # a value is what it was when it was bound
    assert talk("ones(n)") == "Tensor[4, f32]\n[1., 1., 1., 1.]\n"
    assert talk('"a" ') == "'a'\n"
    assert talk("2 < 3") == "True\n"
    assert talk("None") == ""
    assert talk("ones(3, 2).shape") == "(3, 2)\n"
    assert talk("(ones(1), 3)") == "Tensor[1, f32]\n[1.]\n3\n"


def test_results_that_do_not_fit(talk: Talk) -> None:
    assert talk.error("zeros(1000000, 1000000, 1000000)").startswith("error[E0926]: no memory for a result of ")


def test_functions_and_constants_of_the_session(talk: Talk) -> None:
    talk("half = bf16 @accum(f32)", "row = Tensor[4, f32]", "k = 2")
    talk("def f(x: row) -> row:\n    return x * float(k)", "def g(x): return f(x) + 1.0")
    assert talk("g(ones(4))") == "Tensor[4, f32]\n[3., 3., 3., 3.]\n"
    talk("k = 5")
    assert talk("g(ones(4))") == "Tensor[4, f32]\n[6., 6., 6., 6.]\n"


@pytest.mark.one_in(2)
def test_a_definition_takes_the_place_of_another(talk: Talk) -> None:
    talk("def f(x: Tensor[N, f32]): return x + 1.0", "y = f(ones(2))")
    talk("def f(x: Tensor[N, f32]): return x + 2.0")
    assert talk("f(y)") == "Tensor[2, f32]\n[4., 4.]\n"
    talk("f = ones(2)")
    assert talk("f") == "Tensor[2, f32]\n[1., 1.]\n"


def test_a_definition_that_breaks_another_says_so_and_stays(talk: Talk) -> None:
    talk("def f(x: Tensor[N, f32]): return x", "def g(x: Tensor[N, f32]): return f(x)")
    talk("def h(x: Tensor[N, f32]) -> Tensor[N, f32]: return g(x)")
    _, said = talk.both("def f(x: Tensor[N, N, f32]): return x")
    assert "<repl>:2:" in said and "error[E03" in said
    assert talk("f(ones(2, 2))").startswith("Tensor[2, 2, f32]")
    assert "<repl>:2:" in talk.error("g(ones(2))")
    assert "<repl>:2:" in talk.error("h(ones(2))")


@pytest.mark.one_in(3)
def test_statements_update_names(talk: Talk) -> None:
    talk("x = zeros(2)", "for i in range(3):\n    x = x + 1.0", "x += 1.0")
    assert talk("x") == "Tensor[2, f32]\n[4., 4.]\n"
    talk("a, b = 3, x * 2.0")
    assert talk("a") == "3\n"
    assert (talk.array("b") == 8).all()


@pytest.mark.one_in(3)
def test_structs_are_values(talk: Talk) -> None:
    talk("struct P[N]:\n    w: Tensor[N, f32] = ones(N)\n    def apply(self, x: Tensor[N, f32]): return self.w * x")
    talk("p = P[4]()")
    assert talk("p") == "P[4]\n  w: Tensor[4, f32]  min 1  mean 1  max 1  nan 0\n"
    assert talk("p(ones(4) * 2.0)") == "Tensor[4, f32]\n[2., 2., 2., 2.]\n"
    talk("t = (p, 3, ones(2))")
    assert talk("t[1]") == "3\n"


@pytest.mark.one_in(3)
def test_large_tensors_are_summed_up(talk: Talk) -> None:
    out = talk("zeros(100, 100) + 2.5")
    assert out.startswith("Tensor[100, 100, f32]  min 2.5  mean 2.5  max 2.5  nan 0\n[[2.5, 2.5, 2.5, ..., ")
    assert out.count("\n") < 12
    talk("z = zeros(300)", "d = z / z", "i = 1.0 / z")
    assert "  nan 300\n" in talk("d")
    assert "nan 0  inf 300\n" in talk("i")
    assert talk("z > 1.0").startswith("Tensor[300, bool]  0 of 300 true\n")


# ------------------------------------------------------------------------------------------------------- mistakes


def test_mistakes_point_at_the_lines_of_the_session(talk: Talk) -> None:
    talk("x = ones(3, 4)")
    said = talk.error("x + ones(3)")
    assert said.startswith("error[E0302]: ") and " --> <repl>:2:3\n" in said and "2 | x + ones(3)\n" in said
    assert "<repl>:3:4" in talk.error("1 +")
    assert talk("x").startswith("Tensor[3, 4, f32]")


def test_an_input_with_a_mistake_changes_nothing(talk: Talk) -> None:
    talk("x = ones(2)")
    talk.error("x = x + ones(3)")
    talk.error("def f(a: Tensor[N, f32]): return a + b")
    assert (talk.array("x") == 1).all()
    assert talk(":names") == "x: Tensor[2, f32]  min 1  mean 1  max 1  nan 0\n"


def test_functions_do_not_see_values_and_that_is_said(talk: Talk) -> None:
    talk("w = ones(2)")
    said = talk.error("def f(x: Tensor[N, f32]): return x + w")
    assert "`w` is a value of the session, which functions do not see" in said


def test_warnings_are_said_once(talk: Talk) -> None:
    _, said = talk.both("def f(x: Tensor[N, bf16]): return sum(x)")
    assert said.startswith("warning[W0401]")
    assert talk("1 + 1") == "2\n"


def test_return_and_break_have_no_place_here(talk: Talk) -> None:
    assert "E0110" in talk.error("return 3")
    assert "E0110" in talk.error("break")


# ------------------------------------------------------------------------------------------------------- commands


def test_types_without_running(talk: Talk) -> None:
    talk("x = ones(3, 4)", "def f(a: Tensor[N, f32], *, k: int = 2) -> Tensor[N, f32]: return a")
    assert talk(":type x @ x.T") == "Tensor[3, 3, f32]\n"
    assert talk(":type f") == "f(a: Tensor[N, f32], *, k: int = 2) -> Tensor[N, f32]\n"
    assert talk(":type 3") == "int (3)\n"
    assert "<repl>:5:12" in talk.error(":type x[0] + ones(5)")
    assert "<repl>:6:5" in talk.error(":ir a graph")


def test_ir_of_an_expression(talk: Talk) -> None:
    talk("x = ones(3)")
    assert "graph.add(%x, %x)" in talk(":ir x + x")
    assert "tile.kernel" in talk(":ir x + x tile")
    assert "define" in talk(":ir x + x llvm")
    assert ".entry" in talk(":ir x + x ptx")
    assert talk.error(":ir") == "error: an expression must follow; `:help` shows how\n"


@pytest.mark.one_in(2)
def test_time(talk: Talk) -> None:
    talk("x = ones(30, 30)")
    assert re.fullmatch(
        r"\S+ \w+ at best, \S+ \w+ in the middle of \d+ calls; compiled in \S+ \w+\n", talk(":time x @ x")
    )
    assert talk(":time 3") == "known without running it\n"


@pytest.mark.one_in(2)
def test_files_are_loaded_and_read_again(talk: Talk) -> None:
    file = Path("lib.tess")
    file.write_text("scale = 2.0\ndef twice(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * scale\n")
    assert talk(":load lib.tess") == "lib.tess: scale, twice\n"
    talk("y = twice(ones(2))", "def f(x: Tensor[N, f32]): return twice(x)")
    file.write_text(file.read_text().replace("2.0", "10.0"))
    assert talk(":reload") == "read again: lib.tess\n"
    assert talk("f(y)") == "Tensor[2, f32]\n[20., 20.]\n"
    file.write_text("def twice(x: Tensor[N, f32]) -> Tensor[M, f32]:\n    return x\n")
    assert "lib.tess:1:" in talk.error(":reload")
    assert talk("f(y)") == "Tensor[2, f32]\n[20., 20.]\n"
    assert "E0901" in talk.error(":load absent.tess")


def test_help_and_names_of_nothing(talk: Talk) -> None:
    listed = talk(":help")
    assert all(f"  :{name}" in listed for name in ("type", "ir", "time", "load", "reload", "names", "help", "quit"))
    assert "e to the power x" in talk(":help exp")
    assert "The gradient of a function" in talk(":help grad") and "leaves(tree)" in talk(":help leaves")
    assert talk(":names") == ""
    assert talk.error(":frobnicate").startswith("error: there is no command `:frobnicate`")
    assert "nothing here is called" in talk.error(":help frobnicate")
    assert not talk.repl.run(":q")


# ------------------------------------------------------------------------------------------------ lines and words


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["x = 1", "y = 2"], ["x = 1", "y = 2"]),
        (["x = (1,", "  2)"], ["x = (1,\n  2)"]),
        (['s = """a', "", 'b"""'], ['s = """a\n\nb"""']),
        (["x = 1 + \\", "  2"], ["x = 1 + \\\n  2"]),
        (["def f(x): return x", "f(1)"], ["def f(x): return x", "f(1)"]),
        (["def f(x):", "    y = x", "", "    return y", "f(1)"], ["def f(x):\n    y = x\n\n    return y", "f(1)"]),
        (["@export", "def f(x):", "    return x"], ["@export\ndef f(x):\n    return x"]),
        (["if c:", "    x = 1", "else:", "    x = 2", ":names"], ["if c:\n    x = 1\nelse:\n    x = 2", ":names"]),
        (["", "# nothing", "  :names  "], [":names"]),
        (["x = 'open", "y"], ["x = 'open", "y"]),
    ],
)
def test_lines_become_inputs(lines: Sequence[str], expected: Sequence[str]) -> None:
    reader = LineReader(by_hand=False)
    found = [text for line in lines for text in reader.feed(line)]
    assert [*found, *([reader.finish()] if reader.waiting else [])] == expected


def test_an_empty_line_ends_a_block_for_a_person() -> None:
    reader = LineReader(by_hand=True)
    assert reader.feed("def f(x):") == [] and reader.indentation == "    "
    assert reader.feed("    if x:") == [] and reader.indentation == "        "
    assert reader.feed("        return x") == [] and reader.indentation == "        "
    assert reader.feed("        ") == ["def f(x):\n    if x:\n        return x"] and not reader.waiting
    assert reader.feed("x = (") == [] and reader.feed("") == []
    assert reader.feed(")") == ["x = (\n\n)"]


def test_completion(talk: Talk, tmp_path: Path) -> None:
    talk("velocity = ones(3)", "def velocities(x: Tensor[N, f32]): return x")
    engine: Engine = talk.repl.engine
    assert complete(engine, "y = ", "veloc") == ["velocities", "velocity"]
    assert "softmax" in complete(engine, "", "soft")
    assert complete(engine, "", ":t") == [":time", ":type"]
    assert "velocity.sum" in complete(engine, "", "velocity.su")
    assert "while" in complete(engine, "", "whi")
    (tmp_path / "model.tess").write_text("")
    assert complete(engine, ":load ", "mod") == ["model.tess"]


# --------------------------------------------------------------------------------------------------- apart, piped


def test_a_crash_does_not_end_the_session() -> None:
    def crash() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    with pytest.raises(Died, match="SIGKILL"):
        run_apart(crash)
    assert run_apart(lambda: b"x" * 200_000) == b"x" * 200_000


@pytest.mark.one_in(2)
def test_an_interrupt_while_compiling_keeps_the_names(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lib.tess").write_text("def twice(x: Tensor[N, f32]): return x * 2.0\n")
    talk(":load lib.tess", "x = ones(2)", "def f(x: Tensor[N, f32]): return twice(x)")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "function", interrupt)
        assert talk.error("f(x)") == "interrupted\n"
        Path("lib.tess").write_text("def twice(\n")
        assert "lib.tess:1:" in talk.error("f(x)")
    assert talk("f(x)") == "Tensor[2, f32]\n[2., 2.]\n"


def piped(text: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"TESSERA_CACHE_DIR": new_cache(tmp_path)}
    line = [*COMMAND, *options]
    return subprocess.run(line, cwd=ROOT, env=variables, input=text, capture_output=True, text=True, check=False)


@pytest.mark.one_in(16)
def test_a_pipe_has_no_prompts_and_a_status(tmp_path: Path) -> None:
    done = piped("x = ones(2)\ndef f(a):\n    b = a * 3.0\n\n    return b\nf(x)\n", tmp_path, "--threads", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Tensor[2, f32]\n[3., 3.]\n", "")
    done = piped("y\n1 + 1\n:quit\nz\n", tmp_path)
    assert done.returncode == 1 and done.stdout == "2\n" and done.stderr.count("error[E0201]") == 1


# ------------------------------------------------------------------------------------------------------- terminal


class Terminal:
    """A session behind a pseudo-terminal."""

    def __init__(self, home: Path) -> None:
        folders = {"XDG_STATE_HOME": str(home), "TESSERA_CACHE_DIR": new_cache(home / "cache")}
        variables = os.environ | folders | {"TERM": "dumb"}
        self._handle, inner = pty.openpty()
        self.process = subprocess.Popen(
            COMMAND, cwd=ROOT, env=variables, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(inner)
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def wait_for(self, text: str, seconds: float = 120.0) -> None:
        """Reads what is shown, up to and with the text."""
        end = time.monotonic() + seconds
        while text not in self._shown:
            ready, _, _ = select.select([self._handle], [], [], max(end - time.monotonic(), 0))
            assert ready, f"no {text!r} in {self._shown!r}"
            self._shown += os.read(self._handle, 4096).decode()
        self._shown = self._shown.partition(text)[2]

    def interrupt(self, text: str) -> None:
        """Presses Ctrl-C until the text is shown: between two keys of a line Python does not see the signal."""
        for _ in range(20):
            time.sleep(0.3)
            self.type("\x03")
            with suppress(AssertionError):
                return self.wait_for(text, 3.0)
        raise AssertionError(f"Ctrl-C did not lead to {text!r}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._handle)


def _take_terminal() -> None:
    import fcntl
    import termios

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background of a shell
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.mark.one_in(16)
def test_a_person_at_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait_for("tessera> ")
    terminal.type("def f(x):\n")
    terminal.wait_for("     ... ")
    terminal.type("return x * 2.0\n")
    terminal.wait_for("... ")
    terminal.type("\nf(ones(2))\n")
    terminal.wait_for("[2., 2.]")
    terminal.wait_for("tessera> ")
    terminal.type("half done")
    terminal.wait_for("half done")
    terminal.interrupt("tessera> ")  # Ctrl-C drops the line
    terminal.type("1 + 1\n")
    terminal.wait_for("\n2\r\n")
    terminal.wait_for("tessera> ")
    terminal.type("\x04")
    assert terminal.process.wait(30) == 0
    assert "f(ones(2))" in (tmp_path / "tessera" / "history").read_text()


@pytest.mark.one_in(12)
def test_ctrl_c_stops_the_computation_and_not_the_session(terminal: Terminal) -> None:
    terminal.wait_for("tessera> ")
    terminal.type("x = ones(64, 64); n = 2\n")
    terminal.wait_for("tessera> ")
    terminal.type("for i in range(100000000):\n")
    terminal.wait_for("... ")
    terminal.type("x = x @ x\n\n")
    time.sleep(2.0)  # compiled by now, and running for hours
    terminal.type("\x03")
    terminal.wait_for("interrupted")
    terminal.wait_for("tessera> ")
    terminal.type("sum(x)\n")
    terminal.wait_for("Tensor[f32] 4096.0")
