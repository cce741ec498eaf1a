"""The disk cache: keys, whole entries under racing writers, damage, size; and the toolchain's part of the key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera import toolchain
from tessera.cache import DiskCache, cache_key, default_directory
from tests.support.paths import ROOT

KEY = cache_key(["test"])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path / "new" / "folder"))
    assert cache.read(KEY) is None
    cache.write(KEY, b"one")
    cache.write(KEY, b"two")
    assert cache.read(KEY) == b"two"
    assert [p.name for p in (tmp_path / "new" / "folder").glob("*/*")] == [KEY]


@pytest.mark.one_in(16)
@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_keys_tell_lists_of_parts_apart(first: list[str], second: list[str]) -> None:
    assert (cache_key(first) == cache_key(second)) == (first == second)


def test_a_directory_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(str(tmp_path / "file"))
    cache.write(KEY, b"data")
    assert cache.read(KEY) is None


def test_no_temporary_file_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    cache = DiskCache(str(tmp_path))
    cache.write(KEY, b"data")
    assert list(tmp_path.glob("*/*")) == []


def test_the_oldest_entries_make_room(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), limit_bytes=500)
    keys = [cache_key([str(i)]) for i in range(4)]
    for age, key in enumerate(keys[:2]):
        cache.write(key, bytes(100))
        path = next(tmp_path.glob(f"*/{key}"))
        os.utime(path, ns=(0, 10**9 * (age + 1)))
    assert cache.read(keys[0]) is not None  # used now, hence no longer the oldest
    cache.write(keys[2], bytes(100))
    assert [cache.read(key) is not None for key in keys[:3]] == [True, False, True]


def test_writing_costs_the_same_however_much_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is looked through after every sixteenth of the limit, and with some of the first entries of processes,
    chosen by their keys."""
    looks: list[None] = []
    look = DiskCache._shrink
    monkeypatch.setattr(DiskCache, "_shrink", lambda cache: (looks.append(None), look(cache)))
    for number in range(64):  # as a program does that compiles many modules: each has a cache of its own
        DiskCache(str(tmp_path), limit_bytes=64_000).write(f"{number:064x}", bytes(500))
    assert 1 < len(looks) < 16
    before = len(looks)
    for key in "0f":
        DiskCache(str(tmp_path / key), limit_bytes=64_000).write(key * 64, bytes(500))
        assert len(looks) == before + 1, key
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 64_000 * 17 // 16



RACE = """
import sys
from tessera.cache import DiskCache
directory, key, letter = sys.argv[1:]
cache, data = DiskCache(directory), letter.encode() * 200_000
for _ in range(150):
    cache.write(key, data)
    found = cache.read(key)
    assert found is None or found in (b"a" * 200_000, b"b" * 200_000), "a torn entry"
"""


@pytest.mark.one_in(8)
def test_two_processes_race_on_one_key(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    command = [sys.executable, "-c", RACE, str(tmp_path), KEY]
    racers = [subprocess.Popen([*command, letter], env=environment, stderr=subprocess.PIPE) for letter in "ab"]
    assert [(r.wait(), r.communicate()[1]) for r in racers] == [(0, b""), (0, b"")]
    assert DiskCache(str(tmp_path)).read(KEY) in (b"a" * 200_000, b"b" * 200_000)
    assert len(list(tmp_path.glob("*/*"))) == 1


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert default_directory() == "/a"
    monkeypatch.delenv("TESSERA_CACHE_DIR")
    assert default_directory() == "/b/tessera"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_directory() == "/c/.cache/tessera"


def test_a_changed_compiler_is_another_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("tesserac", "llvmlite"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "_version.py").write_text("1")
    (tmp_path / "stdlib").mkdir()
    monkeypatch.setattr(toolchain, "_package", lambda name: str(tmp_path / name))
    keys = [toolchain.toolchain_key.__wrapped__()]
    assert keys[0] == toolchain.toolchain_key.__wrapped__()
    for file in ("tesserac/new.py", "stdlib/nn.tess", "llvmlite/_version.py"):
        (tmp_path / file).write_text("changed")
        keys.append(toolchain.toolchain_key.__wrapped__())
    (tmp_path / "tesserac" / "__pycache__").mkdir()
    (tmp_path / "tesserac" / "__pycache__" / "new.pyc").write_text("no part of the compiler")
    assert len(set(keys)) == 4 and toolchain.toolchain_key.__wrapped__() == keys[-1]
