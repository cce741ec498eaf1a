"""Blocks of pages that are neither programs nor Python: commands, settings, and what commands print.

Lessons, guides and generated pages are run and compared as a whole. Every other block stands in `HELD`, with what holds
it to the truth: a block that nothing holds fails here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tessera
from docs.generate import COMPILED, SIMPLE
from tesserac.target.nvptx.ptx import find_ptxas
from tests.docs.test_site import COMPLETE
from tests.support.caches import new_cache
from tests.support.lessons import shown
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PROGRAMS = ("tess", "python", "mermaid")
"""Held by `test_docs` and `test_site`; diagrams are drawn by the site."""
MODEL = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n"
_BLOCK = re.compile(r'^```(\w+)(?: title="[^"\n]+")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def says(command: str, block: str) -> None:
    """A command prints the lines of a block, one after the other; how far they are indented does not matter."""
    printed = [line.strip().removeprefix("p.tess: ") for line in shown(command).splitlines()]
    wanted = [line.strip() for line in block.splitlines()]
    assert any(printed[i : i + len(wanted)] == wanted for i in range(len(printed))), "\n".join(printed)


# ------------------------------------------------------------------------------------------------------ operators

OPERATORS = """def f(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    A = op.dense(m)
    return op.dense(m, unitary=True) @ x, solve(A.H ∘ A + op.eye(N), x)
"""


def operators_in_the_graph(block: str) -> None:
    write("p.tess", OPERATORS)
    printed = shown("tesserac inspect p.tess:f --level graph")
    assert all(re.sub(r"%\d+ = graph.operator\(%\w+\)", "", line) in printed for line in block.splitlines()), printed


def applications_in_the_graph(block: str) -> None:
    write("p.tess", "def f(p: Tensor[N, i64], x: Tensor[N, f32]):\n    return op.permutation(p) @ x\n")
    printed = re.sub(r"%\d+", "%_", shown("tesserac inspect p.tess:f --level graph"))
    assert all(re.sub(r"%\d+", "%_", line) in printed for line in block.splitlines()), printed


# ---------------------------------------------------------------------------------------------------------- sizes


def guards_on_entry(block: str) -> None:
    write("p.tess", "def prefix(x: Tensor[N, f32], y: Tensor[M, f32]):\n    return x[:M] + y\n")
    says("tesserac check --explain-guards p.tess", block)


def checks_on_the_way(block: str) -> None:
    body = "    y = zeros(N)\n    for i in range(N):\n        if c:\n            y[i] = x[i + 2]\n    return y\n"
    write("p.tess", f"def f(x: Tensor[N, f32], c: Tensor[bool]) -> Tensor[N, f32]:\n{body}")
    says("tesserac check --explain-guards p.tess", block)


def chain_of_reasons(block: str) -> None:
    pair = "def pair(a: Tensor[M, f32], b: Tensor[N, f32]) -> Tensor[M, f32] where M == N:\n    return a + b\n"
    call = "def f(s: Tensor[K, f32], q: Tensor[L, f32]):\n    return pair(s, q)\n"
    write("p.tess", "\n" * 3 + pair + "\n" * 14 + call)
    says("tesserac check p.tess", block)


def where_a_dim_came_from(block: str) -> None:
    write("p.tess", "def f(x: Tensor[B, D, f32], w: Tensor[D, F, f32]):\n    h = x @ w\n    return h\n")
    says("tesserac why p.tess:2 h", block)


# ------------------------------------------------------------------------------------------------------ the prompt


def piped(text: str) -> str:
    """What a session says to lines on its standard input, mistakes too."""
    command = [sys.executable, "-c", "from tesserac.cli import tessera; tessera()", "run"]
    return subprocess.run(command, input=text, stdout=-1, stderr=subprocess.STDOUT, text=True, check=False).stdout


def talk(block: str) -> None:
    typed = re.findall(r"^tessera> (.*\n)", block, re.MULTILINE)
    shown_so = re.sub(r"^(\$|tessera>) .*\n", "", block, flags=re.MULTILINE).removesuffix("...\n")
    assert piped("".join(typed)).startswith(shown_so)


def pipe(block: str) -> None:
    found = re.fullmatch(r"\$ printf '(.*?)' \| tessera run\n(.*)", block, re.DOTALL)
    assert found is not None and piped(found[1].replace(r"\n", "\n")) == found[2]


def words_become_arguments(block: str) -> None:
    parameters = "steps: int, lr: float, verbose: bool, data: Tensor[N, f32]"
    write("train.tess", f"def main({parameters}) -> Tensor[N, f32]:\n    return data * lr * float(steps)\n")
    np.save("batch.npy", np.ones(3, "f4"))
    assert shown(block.removeprefix("$ ").strip()) == "Tensor[3, f32]\n[10., 10., 10.]\n"


# ------------------------------------------------------------------------------------------- commands and settings


def fixes(block: str) -> None:
    for line in block.splitlines():
        write("model.tess", f"@export {MODEL}")
        assert "model.tess" in shown(line.partition("#")[0])
        assert (Path("model.tess").read_text(encoding="utf-8") == f"@export\n{MODEL}") == ("--diff" not in line)


def a_project(block: str) -> None:
    write("vision/tessera.toml", block)
    imports = "import layers.blocks as l\nimport common.blocks as c\n"
    write("vision/src/model.tess", imports + MODEL.replace("x * 2.0", "l.f(c.f(x))"))
    for name in ("layers", "common"):
        write(f"{name}/tessera.toml", f'[project]\nname = "{name}"\nversion = "1.2.3"\n')
        write(f"{name}/blocks.tess", MODEL)
    says("tesserac check vision/src/model.tess", "1 file checked: no mistakes")


def signing(block: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the keys")
    write("model.tess", MODEL)
    for line in block.splitlines():
        if line.startswith("openssl"):
            subprocess.run(line.split(), check=True, capture_output=True)
        else:
            assert "model.tessb" in shown(line)


def trusting(block: str) -> None:
    names: dict[str, object] = {"tessera": tessera}
    exec(block, names)
    assert names["m"].f(np.ones(2, "f4")).tolist() == [2, 2]  # type: ignore[attr-defined]


def on_a_device(block: str) -> None:
    """Each is understood: it runs, or says that there is no GPU."""
    write("mlp.tess", f"{MODEL}\ndef main(): return f(ones(3))\n")
    for line in block.splitlines():
        command = re.split(r" {2,}", line)[0]
        if command not in ("tessera run", "tessera train mlp.tess --steps 1000 --device cuda"):
            assert "Usage" not in shown(command)
    assert "--device" in shown("tessera train --help")


def names_of_the_runtime(block: str) -> None:
    for line in block.splitlines():
        assert hasattr(tessera, re.match(r"tessera\.(\w+)\(", line)[1])  # type: ignore[index]


def starts_the_server(block: str) -> None:
    """A setting of an editor that is not here: it names a program that the package has."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert '"tessera-lsp"' in block and "tessera-lsp" in scripts


def helix(block: str) -> None:
    starts_the_server(block)
    settings = tomllib.loads(block)
    assert settings["language"][0]["language-servers"] == list(settings["language-server"])


def extension(block: str) -> None:
    """Needs node and an editor: the target and what it makes are those of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    make, install = block.splitlines()
    assert f"\n{make.removeprefix('make ')}:" in makefile and install.split()[-1] in makefile


def step(number: int) -> Callable[[str], None]:
    """What inspect says of a step of the lesson on kernels."""

    def hold(block: str) -> None:
        lesson = (DOCS / "kernels.md").read_text(encoding="utf-8").partition("## From the naive form")[2]
        write("p.tess", [code for kind, code in _BLOCK.findall(lesson) if kind == "tess"][number - 1])
        level = "" if "takes kernel" in block else " --level schedule"
        says(f"tesserac inspect p.tess:f --target cpu:x86-64-v4{level}", block)

    return hold


def schedule_for_a_target(block: str) -> None:
    schedules = (DOCS / "kernels.md").read_text(encoding="utf-8").partition("## Schedules")[2]
    code = next(code for kind, code in _BLOCK.findall(schedules) if kind == "tess")
    write("p.tess", code + "\ndef f(x: Tensor[M, N, f32]):\n    return double(x)\n")
    says("tesserac inspect p.tess:f --target cuda:sm_90a --level schedule", block)


def costs_of_a_product(block: str) -> None:
    sizes = "a: Tensor[M, 4096, bf16 @accum(f32)], b: Tensor[4096, 4096, bf16 @accum(f32)]"
    write("p.tess", f"def f({sizes}):\n    return a @ b\n")
    says("tesserac inspect p.tess:f --target cuda:sm_90a --level costs --sizes M=4096", block)


HELD: dict[str, list[Callable[[str], None]]] = {
    "algebra.md": [operators_in_the_graph, applications_in_the_graph],
    "dims.md": [guards_on_entry, checks_on_the_way, chain_of_reasons, where_a_dim_came_from],
    "editor.md": [extension, starts_the_server, starts_the_server, helix, starts_the_server],
    "fixes.md": [fixes],
    "gpu.md": [on_a_device, names_of_the_runtime],
    "kernels.md": [*map(step, range(1, 7)), schedule_for_a_target, costs_of_a_product],
    "modules.md": [a_project],
    "repl.md": [talk, pipe, words_become_arguments],
    "security.md": [signing, trusting],
}


def _others() -> dict[str, list[str]]:
    """By page, the blocks that are no programs, of pages that are not run or generated as a whole."""
    whole = (*SIMPLE, *COMPILED, "operators.md")
    found = {}
    for path in sorted(DOCS.glob("*.md")):
        if path.name not in (*whole, *COMPLETE):
            blocks = _BLOCK.findall(path.read_text(encoding="utf-8"))
            found[path.name] = [code for kind, code in blocks if kind not in PROGRAMS]
    return {name: blocks for name, blocks in found.items() if blocks}


@pytest.mark.one_in(2)
def test_every_block_is_held() -> None:
    assert {name: len(blocks) for name, blocks in _others().items()} == {name: len(h) for name, h in HELD.items()}


@pytest.mark.one_in(48)
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
def test_what_kernels_cost() -> None:
    hold_blocks("kernels.md")


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", [name for name in HELD if name != "kernels.md"])
def test_blocks(name: str) -> None:
    hold_blocks(name)


def hold_blocks(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = [code for kind, code in _BLOCK.findall(text) if kind not in PROGRAMS]
    for block, hold in zip(blocks, HELD[name], strict=True):
        hold(block)
