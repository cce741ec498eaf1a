"""The wheel is whole: installed into an empty environment it checks, builds and runs, without the checkout or Lark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.resources import CHECKED_LIBRARY, TABLES, stdlib_files
from tesserac.commands.building import emit_level
from tesserac.driver.prepare import prepared_files
from tesserac.driver.session import NO_SIZES, Session
from tesserac.modules.library import decode_library, encode_library, load_library
from tests.support import sampling
from tests.support.paths import ROOT

PACKAGED = (
    "tesserac", "runtime", "lsp", "grammar", "stdlib", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE",
)  # fmt: skip
of_a_wheel = pytest.mark.one_in(12, "wheel")
"""All at one commit: what costs is to build it. `.ci/wheel` builds, installs and runs one at every commit."""
EXAMPLE = ROOT / "examples" / "softmax.tess"

OPENED = """
import json, sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
import numpy as np, tessera
y = tessera.load(sys.argv[1]).softmax_rows(np.arange(6, dtype="f4").reshape(2, 3))
print(json.dumps([sorted(opened), sorted(sys.modules), tessera.__file__, y.tolist()]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("copy"))


def built(folder: Path, hash_seed: int = 0) -> Path:
    """Built from a copy, so that nothing that stands in the checkout unseen can help."""
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile
            )
        else:
            shutil.copyfile(ROOT / name, folder / name)
    command = ("-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", ".")
    run(sys.executable, *command, cwd=folder, PYTHONHASHSEED=str(hash_seed))
    (found,) = (folder / "dist").iterdir()
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment with the wheel; what it depends on comes from the one that runs the test."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel))
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(*command: str, cwd: Path | None = None, cache: Path | None = None, **more: str) -> str:
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(cwd or Path.cwd()), **more}
    if cache is not None:
        variables["TESSERA_CACHE_DIR"] = str(cache)
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@of_a_wheel
def test_the_wheel_holds_code_data_and_what_was_prepared(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = ["grammar/tessera.lark", TABLES, CHECKED_LIBRARY, *(f"stdlib/{path}" for path in stdlib_files())]
    assert {f"tesserac/_data/{path}" for path in data} <= names
    assert {"tessera/__init__.py", "tesserac/cli.py", "tessera_lsp/server.py", "tesserac/diag/codes/E0301.md"} <= names
    strays = {name.split("/")[0] for name in names} - {"tesserac", "tessera", "tessera_lsp"}
    assert [stray for stray in strays if not stray.endswith(".dist-info")] == []


@of_a_wheel
@pytest.mark.skipif(not sampling.thorough, reason="`.ci/wheel` compares two builds")
def test_a_second_build_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """From other files of other times, in another folder, with another order of sets."""
    assert built(tmp_path, hash_seed=1).read_bytes() == wheel.read_bytes()


@of_a_wheel
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    """One version everywhere, and the licence with its text."""
    with zipfile.ZipFile(wheel) as files:
        (folder,) = {name.split("/")[0] for name in files.namelist() if ".dist-info/" in name}
        metadata = files.read(f"{folder}/METADATA").decode()
        assert files.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert folder == f"tessera_lang-{tessera.__version__}.dist-info"
    assert "License-Expression: Apache-2.0\n" in metadata
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {tessera.__version__}\n" in citation
    assert f"\n## {tessera.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@of_a_wheel
def test_a_program_runs_without_the_checkout_and_without_lark(environment: Path, tmp_path: Path) -> None:
    program = shutil.copy(EXAMPLE, tmp_path)
    text = run(str(environment / "python"), "-c", OPENED, program, cwd=tmp_path, cache=tmp_path / "cache")
    opened, modules, where, result = json.loads(text)
    ours = [path for path in opened if path.startswith(tuple(str(ROOT / name) for name in PACKAGED))]
    assert ours == []
    assert str(environment.parent) in where
    assert any(path.endswith(CHECKED_LIBRARY) for path in opened)
    assert any(path.endswith(TABLES) for path in opened)
    assert not any(name.split(".")[0] == "lark" for name in modules)
    assert np.allclose(np.sum(result, axis=1), 1.0)


@of_a_wheel
def test_both_commands_work_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    program = shutil.copy(EXAMPLE, tmp_path)
    shown = run(str(environment / "tessera"), "run", program, cwd=tmp_path, cache=tmp_path / "cache")
    assert shown.startswith("Tensor[2, 4, f32]\n")
    forms = run(str(environment / "tesserac"), "build", program, "--emit", "forms", cwd=tmp_path)
    here = emit_level(Session(), program, None, "cpu", "forms", None, NO_SIZES).output
    assert forms == here, "as from a library just checked"


@pytest.mark.one_in(48)
def test_a_prepared_library_serves_only_the_files_it_was_made_of() -> None:
    files = stdlib_files()
    library = load_library()
    data = encode_library(library, files)
    restored = decode_library(data, files)
    assert restored is not None
    assert [result.module.name for result in restored] == [result.module.name for result in library]
    assert decode_library(data, files | {"prelude.tess": "INF = 1.0\n"}) is None
    assert decode_library(data[: len(data) // 2], files) is None
    assert b"_hash" not in data, "a hash of a name is worth nothing in another process"


@pytest.mark.one_in(4)
def test_a_library_with_a_mistake_is_not_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"prelude.tess": "def f(x: Tensor[N, f32]): return y\n"}
    monkeypatch.setattr("tesserac.driver.prepare.stdlib_files", lambda: broken)
    with pytest.raises(AssertionError, match="the library has a mistake"):
        prepared_files()
