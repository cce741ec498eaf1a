"""The file with the compiler's modules: what is in it is run as the modules themselves, and damage is not seen."""

from __future__ import annotations

import json
import marshal
import os
import subprocess
import sys
from importlib.util import module_from_spec
from pathlib import Path

import pytest

from tesserac.base.bytecode import MANY, Modules, read_modules, write_modules

TEXT = "from __future__ import annotations\n\nanswer = 42\n"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file with the modules `pack`, a package, and `pack.one`."""
    code = marshal.dumps(compile(TEXT, "/somewhere/one.py", "exec"))
    empty = marshal.dumps(compile("", "/somewhere/__init__.py", "exec"))
    file = tmp_path / "cache" / "modules"
    codes = {"pack": ("/somewhere/__init__.py", True, empty), "pack.one": ("/somewhere/one.py", False, code)}
    write_modules(str(file), "key", codes)
    return file


def test_a_module_runs_as_that_of_its_text(kept: Path) -> None:
    modules = read_modules(str(kept), "key")
    package, spec = modules.find_spec("pack"), modules.find_spec("pack.one")
    assert package is not None and package.submodule_search_locations == ["/somewhere"]
    assert spec is not None and spec.loader is not None and spec.cached == str(kept)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (module.answer, module.__file__, module.__package__) == (42, "/somewhere/one.py", "pack")
    assert modules.find_spec("pack.two") is None


def _found(file: Path, key: str = "key") -> list[bool]:
    modules: Modules = read_modules(str(file), key)
    return [modules.find_spec(name) is not None for name in ("pack", "pack.one")]


def test_another_key_and_no_file_are_nothing(kept: Path, tmp_path: Path) -> None:
    assert _found(kept) == [True, True]
    assert _found(kept, "other") == [False, False]
    assert _found(tmp_path / "missing") == [False, False]


@pytest.mark.parametrize(
    ("place", "left"),
    [pytest.param(-5, [True, False], id="code"), pytest.param(60, [False, False], id="table")],
)
def test_what_is_damaged_is_not_there(kept: Path, place: int, left: list[bool]) -> None:
    data = bytearray(kept.read_bytes())
    data[place] ^= 1
    kept.write_bytes(data)
    assert _found(kept) == left


@pytest.mark.parametrize("length", [0, 4, 30, 100, -3])
def test_what_is_cut_off_is_not_there(kept: Path, length: int) -> None:
    kept.write_bytes(kept.read_bytes()[:length])
    assert not _found(kept)[1]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_what_others_can_write_is_not_trusted(kept: Path) -> None:
    kept.chmod(0o666)
    assert _found(kept) == [False, False]
    kept.chmod(0o600)
    kept.parent.chmod(0o777)
    assert _found(kept) == [False, False]


SHOWN = """
import json, sys, tesserac.syntax.parse, tesserac.ops
own = {name: module.__cached__ for name, module in sys.modules.items() if name.startswith("tesserac.")}
print(json.dumps([len(own), sum(place.endswith(".pyc") for place in own.values())]))
"""


@pytest.mark.one_in(4)
def test_the_next_process_has_the_modules_from_the_file(tmp_path: Path) -> None:
    env = {**os.environ, "TESSERA_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)

    def run() -> list[int]:
        done = subprocess.run([sys.executable, "-c", SHOWN], env=env, capture_output=True, text=True, check=True)
        counts: list[int] = json.loads(done.stdout)
        return counts

    (modules, separate), (again, left) = run(), run()
    assert modules == again >= MANY and separate == modules
    assert left <= 2  # the file is read by a module that is imported before
