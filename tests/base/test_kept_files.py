"""Files that are kept between runs: damage, exchange and strangers cost time, and never change what is said or run."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.cache import DiskCache, cache_key, default_directory, distrust, read_entry, write_entry
from tessera.errors import TesseraWarning
from tesserac import cli
from tesserac.base.records import Records
from tesserac.base.resources import stdlib_files
from tesserac.check.algebra.base import Kind
from tesserac.check.module.stored import CHECKED
from tesserac.driver.check_cache import CheckCache
from tesserac.modules.library import decode_library, encode_library
from tests.check.test_incremental import library_session
from tests.support import sampling
from tests.support.caches import new_cache
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

BASE = "def twice(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n"
USER = """from base import twice

def f(x: Tensor[N, f32], y: Tensor[M, f32]):
    return twice(x) + y

def g(x: Tensor[N, f32]):
    unused = 1
    return missing + x
"""
TWO = """
def plus(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x + 1.0

def minus(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x - 1.0
"""
is_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def said(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A project that was checked, and what was said of it."""
    monkeypatch.setattr("tesserac.driver.check_cache.load_library", lambda: library_session().library)
    (tmp_path / "base.tess").write_text(BASE)
    (tmp_path / "user.tess").write_text(USER)
    monkeypatch.chdir(tmp_path)
    return answers()


def answers() -> str:
    """What a new run says."""
    run = CheckCache(Records())
    return "".join(repr(run.of(name).diagnostics) for name in ("base.tess", "user.tess"))


def flipped(data: bytes, count: int, seed: int = 1) -> Iterator[bytes]:
    """Copies with one bit changed each, from all over the file; its head is met more often than chance would."""
    dice = random.Random(seed)
    for number in range(count):
        at = dice.randrange(len(data) * 8 if number % 4 else min(len(data), 200) * 8)
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        yield bytes(changed)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", ["checked", "ledger", "interface"])
def test_bits_that_flip_in_records_change_nothing(said: str, cache: Path, kind: str) -> None:
    assert "E0201" in said
    for file in cache.rglob(f"*.{kind}"):
        whole = file.read_bytes()
        for damaged in flipped(whole, 12 if sampling.thorough else 4):
            file.write_bytes(damaged)
            assert answers() == said
        for length in (0, 10, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert answers() == said


def test_records_that_change_places_change_nothing(said: str, cache: Path) -> None:
    files = sorted(file for file in cache.rglob("*") if file.is_file())
    assert len(files) >= 5
    whole = {file: file.read_bytes() for file in files}
    for shift in range(1, len(files)):
        for place, file in enumerate(files):
            file.write_bytes(whole[files[(place + shift) % len(files)]])
        assert answers() == said


class Planted:
    """What a pickle runs when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)


def test_a_planted_pickle_does_not_run(said: str, cache: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for file in [f for f in cache.rglob("*") if f.is_file()]:
        file.write_bytes(pickle.dumps(Planted(marker)))
    assert answers() == said and not marker.exists()


BYTECODE = ROOT / "tesserac" / "base" / "bytecode.py"
"""Reads Python's own code, as Python does, from a file that is trusted as machine code is; `test_bytecode.py`."""


def test_nothing_in_the_project_reads_pickles() -> None:
    for folder in ("tesserac", "runtime", "lsp"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            names = ("pickle", "shelve", "dill") if path == BYTECODE else ("pickle", "marshal", "shelve", "dill")
            assert not any(f"import {name}" in text for name in names), path


@pytest.mark.one_in(48)
def kinds_of_operators(above: type = Kind) -> Iterator[type]:
    for cls in above.__subclasses__():
        yield cls
        yield from kinds_of_operators(cls)


def test_every_kind_of_operator_can_be_kept() -> None:
    """A library that has been asked for instances by programs holds the operators of those."""
    assert set(kinds_of_operators()) <= set(CHECKED)


def test_bits_that_flip_in_the_library_make_it_none() -> None:
    files = stdlib_files()
    data = encode_library(library_session().library, files)
    assert decode_library(data, files) is not None
    assert all(decode_library(damaged, files) is None for damaged in flipped(data, 60 if sampling.thorough else 12))


# ------------------------------------------------------------------------------------------------- compiled code


def test_bits_that_flip_in_compiled_entries_make_them_none(cache: Path) -> None:
    x = np.ones(3, np.float32)
    for _ in range(2):
        assert tessera.compile(TWO).plus(x).tolist() == [2, 2, 2]
    for file in [f for f in cache.glob("??/*") if f.is_file()]:
        whole, kept = file.read_bytes(), DiskCache(str(cache))
        assert kept.read(file.name) is not None
        for damaged in flipped(whole, 60 if sampling.thorough else 20):
            file.write_bytes(damaged)
            assert kept.read(file.name) is None
        file.write_bytes(whole)


def test_compiled_entries_that_change_places_run_what_was_asked_for(cache: Path) -> None:
    x = np.ones(3, np.float32)
    first = tessera.compile(TWO)
    assert first.plus(x).tolist() == [2, 2, 2] and first.minus(x).tolist() == [0, 0, 0]
    files = sorted(f for f in cache.glob("??/*") if f.is_file())
    whole = {file: file.read_bytes() for file in files}
    for shift in range(1, len(files)):
        for place, file in enumerate(files):
            file.write_bytes(whole[files[(place + shift) % len(files)]])
        again = tessera.compile(TWO)
        assert again.plus(x).tolist() == [2, 2, 2] and again.minus(x).tolist() == [0, 0, 0]


def test_bits_that_flip_in_a_bundle_refuse_it(cache: Path, tmp_path: Path) -> None:
    new_cache(cache)
    (tmp_path / "two.tess").write_text(TWO)
    assert cli.main(cli.compiler, "tesserac", ["build", str(tmp_path / "two.tess")]) == 0
    bundle = tmp_path / "two.tessb"
    whole = bundle.read_bytes()
    for damaged in flipped(whole, 150 if sampling.thorough else 40):
        bundle.write_bytes(damaged)
        with pytest.raises(TesseraError) as caught:
            tessera.load(bundle)
        assert caught.value.code == "E0910"
    bundle.write_bytes(whole)
    assert tessera.load(bundle).plus(np.zeros(1, np.float32)).tolist() == [1]


# ----------------------------------------------------------------------------------------------------- strangers

KEY = cache_key(["a test"])


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
def test_a_folder_that_others_write_to_is_not_used(cache: Path, mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_entry(str(cache), "file", KEY, b"data") and read_entry(str(cache), "file", KEY) == b"data"
    assert cache.stat().st_mode & 0o777 == 0o700 and (cache / "file").stat().st_mode & 0o777 == 0o600
    cache.chmod(mode)
    assert f"{mode:04o}" in distrust(str(cache))
    assert read_entry(str(cache), "file", KEY) is None
    assert not write_entry(str(cache), "other", KEY, b"data") and not (cache / "other").exists()
    assert cli.main(cli.compiler, "tesserac", ["explain", "E0301"]) == 0
    assert f"warning[W0902]: the cache folder `{cache}` is not used" in capsys.readouterr().err
    with pytest.warns(TesseraWarning, match="W0902"):
        assert tessera.compile(TWO).plus(np.zeros(1, np.float32)).tolist() == [1]


@is_root
def test_what_belongs_to_somebody_else_is_not_used(cache: Path) -> None:
    assert write_entry(str(cache), "file", KEY, b"data")
    os.chown(cache / "file", 12345, 12345)
    assert read_entry(str(cache), "file", KEY) is None
    assert write_entry(str(cache), "file", KEY, b"data") and read_entry(str(cache), "file", KEY) == b"data"
    os.chown(cache, 12345, 12345)
    assert "12345" in distrust(str(cache)) and read_entry(str(cache), "file", KEY) is None


def test_a_file_that_others_can_write_is_not_used(cache: Path) -> None:
    assert write_entry(str(cache), "file", KEY, b"data")
    (cache / "file").chmod(0o666)
    assert read_entry(str(cache), "file", KEY) is None


NO_HOME = """
import pwd, sys
def unknown(uid): raise KeyError(uid)
pwd.getpwuid = unknown
from tesserac.cli import compiler, main, runner
sys.exit(main(runner if sys.argv[1] == "run" else compiler, "x", sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("home", "words"),
    [
        (None, "check two.tess"),
        (None, "fmt two.tess"),
        (None, "run main.tess"),
        (None, "build two.tess"),
        (".", "run main.tess"),
        ("/dev/null/home", "check two.tess"),
        ("/dev/null/home", "run main.tess"),
    ],
)
@pytest.mark.one_in(48)
def test_no_home_is_no_reason_to_fail(tmp_path: Path, home: str | None, words: str) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    new_cache(temporary / f"tessera-{os.getuid()}")
    (temporary / f"tessera-{os.getuid()}").chmod(0o700)
    (here / "two.tess").write_text(TWO.strip() + "\n")
    (here / "main.tess").write_text("def main():\n    return 3\n")
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(temporary)} | ({} if home is None else {"HOME": home})
    environment |= {name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX",) if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in (".", "runtime", "lsp"))
    command = [sys.executable, "-c", NO_HOME, *words.split()]
    run = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "Traceback" not in run.stderr, run.stderr
    assert sorted(path.name for path in here.iterdir() if path.suffix != ".tessb") == ["main.tess", "two.tess"]


def test_where_there_is_no_home_the_cache_is_never_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TESSERA_CACHE_DIR", raising=False)
    for home in ("", ".", "relative"):
        for xdg in ("", ".", "cache"):
            monkeypatch.setenv("HOME", home)
            monkeypatch.setenv("XDG_CACHE_HOME", xdg)
            monkeypatch.setenv("TMPDIR", "also/relative")
            assert not default_directory().startswith(str(tmp_path)) and os.path.isabs(default_directory())
