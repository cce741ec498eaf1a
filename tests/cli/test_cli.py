"""The commands as users meet them: what they print, where, in which colours, with which exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import click
import numpy as np
import pytest

import tessera
import tesserac.ops.scalar  # noqa: F401  (registers the operations of the texts)
from tesserac import cli
from tesserac.commands import names
from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_module
from tests.support.caches import new_cache
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
SOFTMAX = str(EXAMPLES / "softmax.tess")

SOUND = """\
def double(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * 2.0

def halves(x: Tensor[2*K, f32]) -> Tensor[2, K, f32]:
    return reshape(x, (2, K))

def heads(x: Tensor[S, D, f32], h: int) -> Tensor[S, h, D/h, f32] where D % h == 0:
    return reshape(x, (S, h, D/h))

def scaled(x: Tensor[N, f32], k: int = 3) -> Tensor[N, f32]:
    return x * float(k)

def main() -> Tensor[4, f32]:
    return double(ones(4))
"""
MISTAKE = "def f(x: Tensor[M, K, f32], y: Tensor[N, K, f32]) -> Tensor[M, N, f32]:\n    return x @ y\n"
WARNING = "def total(x: Tensor[N, bf16]) -> Tensor[bf16]:\n    return sum(x)\n"


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


class Program:
    """Runs a command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, group: click.Group = cli.compiler) -> Result:
        status = cli.main(group, "program", arguments)
        captured = self._capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Result(status, captured.out, captured.err)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    for name, text in (("sound", SOUND), ("mistake", MISTAKE), ("warning", WARNING)):
        (tmp_path / f"{name}.tess").write_text(text)
    return Program(capsys)


def spawn(*arguments: str, program: str = "tesserac", encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    code = f"import sys; from tesserac.cli import {program}; sys.exit({program}())"
    line = [sys.executable, "-c", code, *arguments]
    variables = os.environ | {"PYTHONIOENCODING": encoding}
    return subprocess.run(line, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


# ------------------------------------------------------------------------------------------------------- check


def test_sound_programs(command: Program) -> None:
    assert command("check", "sound.tess") == Result(0, "", "1 file checked: no mistakes\n")


def test_several_files_with_mistakes_warnings_and_none_at_all(command: Program) -> None:
    result = command("check", "mistake.tess", "warning.tess", "absent.tess")
    assert result.status == 1
    assert result.err == "3 files checked: 2 errors, 1 warning\n"
    places = [line.split("error")[-1] for line in result.out.splitlines() if line.startswith(("error", "warning"))]
    assert len(places) == 3
    assert "error[E0301]" in result.out and "warning[W0401]" in result.out and "error[E0901]" in result.out
    assert "\x1b" not in result.out


def test_a_warning_alone_is_success(command: Program) -> None:
    assert command("check", "warning.tess").status == 0


def test_short_format(command: Program) -> None:
    result = command("check", "--error-format=short", "mistake.tess")
    assert result.out == 'mistake.tess:2:14: error[E0301]: cannot contract "K" with "N"\n'


def test_json_is_one_array_and_nothing_for_people(command: Program) -> None:
    result = command("check", "--json", "mistake.tess", "warning.tess", "absent.tess")
    found = json.loads(result.out)
    assert [d["code"] for d in found] == ["E0301", "W0401", "E0901"]
    keys = "code severity message file line column end_line end_column labels because notes fixes"
    assert all(list(d) == keys.split() for d in found)
    assert (found[0]["line"], found[0]["column"], found[0]["severity"]) == (2, 14, "error")
    assert result.err == ""
    assert json.loads(command("check", "--error-format", "json", "sound.tess").out) == []


def test_guards_are_listed_with_their_lines(command: Program) -> None:
    (Path("guarded.tess")).write_text(
        "def f(x: Tensor[D, f32]) -> Tensor[D/4, 4, f32] where D % 4 == 0:\n    return reshape(x, (D/4, 4))\n"
    )
    result = command("check", "--explain-guards", "guarded.tess", "warning.tess")
    assert result.out.endswith(
        "guarded.tess: guards, checked on entry\n  f: D % 4 == 0  (line 1)\n      stated by `where`\n"
        "warning.tess: no guards\n"
    )
    assert command("check", "--explain-guards", "--json", "guarded.tess").status == 2


def test_what_derivatives_keep_is_listed(command: Program) -> None:
    (Path("kept.tess")).write_text(
        "def run(w: Tensor[N, N, f32], x: Tensor[T, N, f32]) -> Tensor[f32]:\n    h = zeros(N)\n"
        "    for t in range(T):\n        h = tanh(h @ w + x[t])\n    return sum(h)\n"
        "def slope(w: Tensor[N, N, f32], x: Tensor[T, N, f32]):\n    return grad(run)(w, x)\n"
        "def long(x: Tensor[f32]):\n    def run(v: Tensor[f32]) -> Tensor[f32]:\n        for t in range(100):\n"
        "            v = sin(v)\n        return v\n    return grad(run)(x)\n"
    )
    result = command("check", "--explain-memory", "kept.tess", "sound.tess")
    assert result.out == (
        "kept.tess: kept for derivatives\n"
        "  slope: the loop of line 3 keeps of each of T iterations\n"
        '      h: 4*N bytes (["N"] of f32, line 3)\n'
        '      `tanh(h @ w + x[t])`: 4*N bytes (["N"] of f32, line 4)\n'
        "    in all 8*N*T bytes; `with checkpoint(every=k):` keeps a state of 4*N bytes for every k iterations, "
        "and k iterations\n"
        "  long: the loop of line 10 keeps of each of 100 iterations\n"
        "      `sin(v)`: 4 bytes ([] of f32, line 11)\n"
        "    in all 400 bytes; `with checkpoint(every=10):` keeps 80 bytes\n"
        "kept.tess: no loop copies a tensor whole\n"
        "sound.tess: no loop keeps anything for a derivative\n"
        "sound.tess: no loop copies a tensor whole\n"
    )
    assert command("check", "--explain-memory", "--json", "kept.tess").status == 2


def test_copies_that_remain_are_listed(command: Program) -> None:
    (Path("copied.tess")).write_text(
        "def later(x: Tensor[T, 8, f32]):\n    out, old = zeros(T, 8), zeros(T, 8)\n    for t in range(T):\n"
        "        old = out\n        out[t] = x[t]\n    return out + old\n"
        "def outside(x: Tensor[T, f32]):\n    s = cast(0.0, f32)\n    for t in range(T):\n        y = x\n"
        "        y[t] = s\n        s = sum(y)\n    return s\n"
        "def fine(x: Tensor[T, 8, f32], p: Tensor[T, i32]):\n    out = zeros(T, 8, 1)\n    for t in range(T):\n"
        "        out[p[t], 3] = x[t, 0:1]\n    return out\n"
    )
    result = command("check", "--explain-memory", "copied.tess")
    assert result.out == (
        "copied.tess: no loop keeps anything for a derivative\n"
        "copied.tess: copied in loops\n"
        "  later: every iteration of the loop of line 3 copies `out`, 32*T bytes, at line 5\n"
        "      the tensor as it was is read behind the update, at line 3\n"
        "  outside: every iteration of the loop of line 9 copies `y`, 4*T bytes, at line 11\n"
        "      the loop does not carry the tensor, so that every iteration changes a copy of it\n"
    )


def test_verify_lowers_every_function(command: Program) -> None:
    assert command("check", "--verify", "sound.tess", SOFTMAX).status == 0


@pytest.mark.parametrize("wrong", [("check", "--nope", "x"), ("chek", "x"), ("build",)])
def test_bad_usage(command: Program, wrong: Sequence[str]) -> None:
    result = command(*wrong)
    assert result.status == 2
    assert "Usage:" in result.err and result.out == ""


def test_colour_only_on_a_terminal_and_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.palette_of(Terminal()).start  # type: ignore[arg-type]
    assert not cli.palette_of(open(os.devnull)).start  # noqa: SIM115
    monkeypatch.setenv("NO_COLOR", "1")
    assert not cli.palette_of(Terminal()).start  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- build


def test_a_bundle_runs_without_the_compiler(command: Program) -> None:
    result = command("build", "sound.tess")
    assert result.status == 0 and result.out == ""
    assert result.err.startswith("sound.tessb: double, halves, scaled, main (")
    assert result.err.endswith("left out `heads`: it waits for `h`\n")
    module = tessera.load("sound.tessb")
    assert dir(module) == ["double", "halves", "main", "scaled"]
    x = np.arange(5, dtype="f4")
    assert (module.double(x) == 2 * x).all()
    assert (module.scaled(x) == 3 * x).all()


def test_exported_functions_are_the_bundle(command: Program) -> None:
    Path("api.tess").write_text(SOUND.replace("def halves", "@export\ndef halves"))
    assert command("build", "api.tess", "-o", "out.tessb").status == 0
    assert dir(tessera.load("out.tessb")) == ["halves"]


def test_one_function_in_a_bundle(command: Program) -> None:
    assert command("build", "sound.tess", "--function", "double").status == 0
    assert dir(tessera.load("sound.tessb")) == ["double"]


@pytest.mark.one_in(2)
def test_a_bundle_for_another_machine(command: Program) -> None:
    other = "x86-64-v3" if os.uname().machine == "aarch64" else "aarch64"
    assert command("build", "sound.tess", "--target", f"cpu:{other}").status == 0
    with pytest.raises(tessera.TesseraError, match="E0911"):
        tessera.load("sound.tessb").main()


@pytest.mark.one_in(48)
@pytest.mark.parametrize("level", names.LEVELS, ids=lambda level: level.name)
def test_every_level_prints(command: Program, level: names.LevelName) -> None:
    result = command("build", SOFTMAX, "--emit", level.name, "--function", "softmax_rows")
    assert result.status == 0 and result.err == ""
    if level in (names.GRAPH, names.FORMS, names.SCHEDULE, names.TILE, names.CPU):
        assert print_module(parse_module(result.out)) == result.out
    else:
        sign = {"ast": "FunctionDef", "gpu": "gpu.kernel", "llvm": "define", "asm": ".text", "ptx": ".entry"}
        assert sign[level.name] in result.out


@pytest.mark.one_in(16)
def test_levels_follow_the_target(command: Program) -> None:
    def emit(level: str, target: str) -> Result:
        return command("build", SOFTMAX, "--function", "softmax_rows", "--emit", level, "--target", target)

    assert ".target sm_80" in emit("ptx", "cuda:sm_80").out
    assert "nvptx64" in emit("llvm", "cuda").out
    assert "ymm" in emit("asm", "cpu:x86-64-v3").out
    assert "fmla" in emit("asm", "cpu:aarch64").out
    assert emit("ptx", "cpu").err == (
        "error: this target has no level `ptx`; it has ast, graph, forms, schedule, tile, cpu, llvm, asm\n"
    )
    assert emit("ptx", "cuda:sm_80,cuda").status == 2


@pytest.mark.parametrize("target", ["cpu,cpu:aarch64", "cuda,cuda:sm_90a", "cpu,banana", "", "cpu,"])
def test_a_bundle_has_one_cpu_and_each_gpu_once(command: Program, target: str) -> None:
    assert command("build", SOFTMAX, "--target", target).status == 2


def test_a_level_goes_to_a_file(command: Program) -> None:
    left_out = "left out `heads`: it waits for `h`\n"
    assert command("build", "sound.tess", "--emit", "graph", "-o", "out.ir") == Result(0, "", left_out)
    text = Path("out.ir").read_text()
    assert text == command("build", "sound.tess", "--emit", "graph").out
    assert "// double" in text and "@main.main" in text


def test_mistakes_end_a_build(command: Program) -> None:
    result = command("build", "mistake.tess")
    assert result.status == 1 and result.out == "" and "error[E0301]" in result.err
    assert not Path("mistake.tessb").exists()
    assert command("build", "absent.tess").err.startswith("error[E0901]")


def test_what_cannot_be_built_is_said(command: Program) -> None:
    assert command("build", "sound.tess", "--function", "heads") == Result(
        2, "", "error: `heads` is compiled for each call: it waits for `h`\n"
    )
    assert command("build", "sound.tess", "-o", "no/such/folder").err == (
        "error: cannot write `no/such/folder`: there is no folder `no/such`\n"
    )


# ----------------------------------------------------------------------------------------- inspect and explain


def test_inspect_shows_levels_in_order_with_source_beside(command: Program) -> None:
    result = command("inspect", f"{SOFTMAX}:softmax_rows")
    assert result.status == 0
    headings = [line.split()[1] for line in result.out.splitlines() if line.startswith("== ")]
    assert headings == ["source", *(level.name for level in (*names.CPU_LEVELS, names.COSTS))]
    assert "softmax_rows(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]\nfor all M, N\n" in result.out
    assert "// line 5: return softmax(x)" in result.out
    assert "// stdlib/nn/softmax.tess:" in result.out
    assert "launch 1: rows over M x N\n" in result.out


def test_inspect_one_level_of_another_target(command: Program) -> None:
    place = f"{EXAMPLES / 'matmul.tess'}:matmul_bf16"
    result = command("inspect", place, "--level", "schedule", "--target", "cuda:sm_90a")
    assert "launch 1: contract over M x N x K\n" in result.out
    assert "  because  " in result.out and "producer and consumer" in result.out
    assert len([line for line in result.out.splitlines() if line.startswith("== ")]) == 1


def test_a_source_line_is_said_once_for_a_run_of_operations(command: Program) -> None:
    Path("run.tess").write_text("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * x + x * 2.0\n")
    text = command("inspect", "run.tess:f", "--level", "graph").out
    assert text.count("line 2: return x * x + x * 2.0") == 1
    assert text.count("graph.mul") == 2


@pytest.mark.parametrize("place", ["sound.tess", "sound.tess:", ":double", "sound.tess:dubble", "sound.tess:heads"])
def test_inspect_of_nothing(command: Program, place: str) -> None:
    result = command("inspect", place)
    assert result.status == 2 and result.err.startswith("error: ")
    assert "did you mean `double`?" in result.err or place != "sound.tess:dubble"


def test_explain_renders_the_page(command: Program) -> None:
    result = command("explain", "e0301")
    assert result.status == 0
    assert result.out.startswith("E0301: ")
    assert "\nWhy\n" in result.out and "```" not in result.out and "    def " in result.out


def test_explain_lists_codes(command: Program) -> None:
    listed = command("explain")
    assert listed.status == 0 and "\nE0301  " in listed.out
    unknown = command("explain", "E0310x")
    assert unknown.status == 2 and unknown.out == listed.out
    assert "did you mean E0310?" in unknown.err


@pytest.mark.parametrize(("program", "group"), [("tesserac", cli.compiler), ("tessera", cli.runner)])
def test_everything_has_help(command: Program, program: str, group: click.Group) -> None:
    assert command("--version", group=group).out == f"{program} {tessera.__version__}\n"
    assert command("--help", group=group).status == 0
    for name, known in group.commands.items():
        assert known.help, name
        assert all(getattr(p, "help", "") or p.param_type_name == "argument" for p in known.params), name


# --------------------------------------------------------------------------------------------------------- run


def test_run_prints_what_main_returns(command: Program) -> None:
    assert command("run", "sound.tess", group=cli.runner) == Result(0, "Tensor[4, f32]\n[2., 2., 2., 2.]\n", "")
    assert command("run", "sound.tess", "--threads", "1", group=cli.runner).status == 0
    assert command("run", "sound.tess", "--threads", "0", group=cli.runner).status == 2


def test_run_shows_large_results_by_their_edges_and_scalars_in_a_line(command: Program) -> None:
    Path("many.tess").write_text("def main():\n    return zeros(4000, 30), sum(ones(3))\n")
    out = command("run", "many.tess", group=cli.runner).out
    assert out.startswith("Tensor[4000, 30, f32]\n[[0., 0., 0., ...")
    assert out.endswith("Tensor[f32] 3.0\n")


def test_run_without_main_or_with_mistakes(command: Program) -> None:
    assert "error[E0913]" in command("run", "warning.tess", group=cli.runner).err
    result = command("run", "mistake.tess", group=cli.runner)
    assert result.status == 1 and result.err.startswith("error[E0301]")
    assert command("run", "absent.tess", group=cli.runner).err.startswith("error[E0901]")


# ---------------------------------------------------------------------------------------------- how it all ends


def test_a_fault_says_so_and_leaves_a_file(command: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("tesserac.commands.checking.check_files", fail)
    result = command("check", "sound.tess")
    assert result.status == 70
    assert result.err.startswith("error[E0999]: the compiler failed: RuntimeError: out of luck\n")
    report = Path(result.err.split()[-1]).read_text()
    assert "Traceback" in report and SOUND in report and "arguments: ['check', 'sound.tess']" in report


def test_ctrl_c(command: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tesserac.commands.checking.check_files", interrupt)
    assert command("check", "sound.tess") == Result(128 + signal.SIGINT, "", "")


def test_a_closed_pipe_is_no_news() -> None:
    code = "import sys; from tesserac.cli import tesserac; sys.exit(tesserac())"
    line = [sys.executable, "-c", code, "explain"]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 128 + signal.SIGPIPE


def test_a_full_disk_is_told() -> None:
    code = "import sys; from tesserac.cli import tesserac; sys.exit(tesserac())"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code, "explain"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b"error: not everything could be written: No space left on device\n"


LIGHT = (
    *(f'cli.main(cli.compiler, "tesserac", {line.split()})' for line in ("--help", "build --help", "explain E0301")),
    "import tesserac.commands.checking",  # what was checked before is told without the checker
)
HEAVY = ("numpy", "llvmlite", "lark", "tesserac.check", "tesserac.ir", "tesserac.driver.session", "tesserac.syntax.ast")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("code", LIGHT)
def test_help_and_explain_import_nothing_heavy(code: str) -> None:
    told = f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    code = f"import sys; from tesserac import cli; {code}; {told}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.one_in(8)
def test_a_terminal_without_the_characters(tmp_path: Path) -> None:
    program = tmp_path / "greek.tess"
    program.write_text("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return λ\n", encoding="utf-8")
    done = spawn("check", "--error-format=short", str(program), encoding="latin-1")
    assert done.returncode == 1
    assert done.stdout.endswith(r": error[E0201]: nothing here is called `\u03bb`" + "\n")


@pytest.mark.one_in(16)
def test_the_installed_programs() -> None:
    assert spawn("--version").stdout == f"tesserac {metadata.version('tessera-lang')}\n"
    assert spawn("run", str(EXAMPLES / "vector_add.tess"), program="tessera").stdout.startswith("Tensor[8, f32]\n")
    assert spawn("check", "absent.tess").returncode == 1
