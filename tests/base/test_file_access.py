"""What commands read and write: no devices, no links astray, whole files or none, and links stay links."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError, files
from tessera.checkpoint import Checkpoint, save_checkpoint
from tessera.safetensors import encode_safetensors, read_safetensors
from tesserac import cli
from tesserac.base.recursion import deep_recursion
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.saving import save_value
from tesserac.diag.diagnostic import Diagnostic
from tesserac.syntax.files import read_source
from tests.support.caches import new_cache

SECRET = "password = hunter2 hunter2"
SOUND = "def f(x: Tensor[N, f32]):\n    return x\n"
UNTIDY = "def f(x: Tensor[N, f32]):\n    return   x\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def run(*words: str) -> int:
    return cli.main(cli.compiler, "tesserac", list(words))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "/dev/stdin", "/dev/null"])
def test_only_files_are_read(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    if target == "fifo":
        os.mkfifo("x.tess")
    else:
        os.symlink(target, "x.tess")
    for words in (["check", "x.tess"], ["check", "."], ["fmt", "x.tess"], ["build", "x.tess"], ["test", "x.tess"]):
        assert run(*words) == 1, words
        said = capsys.readouterr()
        assert "E0901" in said.out + said.err or "E0952" in said.out + said.err
    with pytest.raises(TesseraError) as caught:
        tessera.load("x.tess")
    assert caught.value.code == "E0901"


@pytest.mark.one_in(48)
def test_an_import_of_a_fifo_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("base.tess")
    Path("user.tess").write_text("import base\n\n" + SOUND)
    assert run("check", "user.tess") == 1
    assert "base" in capsys.readouterr().out


@pytest.mark.one_in(4)
@pytest.mark.parametrize("has_project", [True, False])
@pytest.mark.parametrize("name", ["x.tess", "tessera.toml"])
def test_a_link_that_leads_elsewhere_is_not_quoted(
    tmp_path: Path, has_project: bool, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    Path("y.tess").write_text(SOUND)
    if has_project and name != "tessera.toml":
        Path("tessera.toml").write_text('[project]\nname = "p"\n')
    os.symlink(tmp_path / "secret", name)
    for words in (["check"] if has_project else ["check", "."], ["check", "x.tess"], ["fmt", "x.tess"]):
        run(*words)
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err
    assert "E0952" in said.out + said.err


def test_a_link_in_a_project_stays_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outside.tess").write_text(SECRET)
    Path("tessera.toml").write_text('[project]\nname = "p"\n')
    os.symlink(tmp_path / "outside.tess", "x.tess")
    assert run("check") == 1
    assert "hunter2" not in (said := capsys.readouterr().out) and "E0952" in said
    Path("x.tess").unlink()
    Path("sub").mkdir()
    Path("sub/real.tess").write_text(SOUND)
    os.symlink("sub/real.tess", "x.tess")
    assert run("check") == 0


def test_a_project_behind_a_link_is_a_project(tmp_path: Path) -> None:
    Path("tessera.toml").write_text('[project]\nname = "p"\n')
    Path("x.tess").write_text(SOUND)
    os.symlink(tmp_path / "here", tmp_path / "there")
    assert not isinstance(read_source(tmp_path / "there" / "x.tess"), Diagnostic)


@pytest.mark.parametrize("words", [["fmt"], ["check", "--fix"]])
def test_a_link_stays_a_link(words: list[str]) -> None:
    text = UNTIDY if words == ["fmt"] else "def f(x: Tensor[N, f32]):\n    return sofmax(x)\n"
    Path("real.tess").write_text(text)
    Path("real.tess").chmod(0o640)
    os.symlink("real.tess", "x.tess")
    run(*words, "x.tess")
    assert os.path.islink("x.tess") and Path("real.tess").read_text() != text
    assert Path("real.tess").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir()) == ["real.tess", "x.tess"]


@pytest.mark.parametrize("sources", ['["nosuch"]', '["nosuch", "neither"]'])
def test_a_project_without_its_folder_is_told(sources: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tessera.toml").write_text(f'[project]\nname = "p"\nsources = {sources}\n')
    for words in (["check"], ["check", "--explain-guards"]):
        assert run(*words) == 1
        assert "E0943" in capsys.readouterr().out


def test_a_project_without_programs_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tessera.toml").write_text('[project]\nname = "p"\n')
    assert run("check") == 2
    assert "no .tess files" in capsys.readouterr().err


def test_modes_of_new_files_follow_the_umask() -> None:
    Path("x.tess").write_text(SOUND)
    before = os.umask(0o027)
    try:
        assert run("build", "x.tess") == 0
    finally:
        os.umask(before)
    assert Path("x.tessb").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Path("x.tess").write_text(UNTIDY)
    monkeypatch.setattr(files, "_keep_status", full)
    assert run("build", "x.tess") == 2 and run("fmt", "x.tess") == 2
    assert capsys.readouterr().err.count("no space left") == 2
    with pytest.raises(UsageMistake, match="No space"):
        save_value(np.zeros(3), "y.npy")
    with pytest.raises(TesseraError, match="No space") as caught:
        save_checkpoint("c.safetensors", Checkpoint({"w": np.zeros(3)}, 1, ()))
    assert caught.value.code == "E0901"
    assert os.listdir() == ["x.tess"] and Path("x.tess").read_text() == UNTIDY


# -------------------------------------------------------------------------------------------------------- weights


def weights(header: str, body: bytes = b"") -> str:
    data = header.encode()
    Path("w.safetensors").write_bytes(len(data).to_bytes(8, "little") + data + body)
    return "w.safetensors"


def entry(shape: str, offsets: str = "[0, 96]", dtype: str = '"F32"') -> str:
    return f'{{"w": {{"dtype": {dtype}, "shape": {shape}, "data_offsets": {offsets}}}}}'


WRONG = {
    "infinite": entry("[1e400]"),
    "huge": entry(f"[{10**40}]"),
    "many digits": entry(f"[{'9' * 6000}]"),
    "text": entry('"46"'),
    "fractions": entry("[4.7, 6.9]"),
    "whole fractions": entry("[4.0, 6.0]"),
    "true": entry("[true, 24]"),
    "negative": entry("[-4, -6]"),
    "null": entry("null"),
    "nested": entry("[[4, 6]]"),
    "deep": entry("[" * 100_000 + "]" * 100_000),
    "one offset": entry("[4, 6]", "[0]"),
    "offsets of text": entry("[4, 6]", '["0", "96"]'),
    "negative offset": entry("[4, 6]", "[-96, 0]"),
    "unknown dtype": entry("[4, 6]", dtype='"F31"'),
    "dtype of lists": entry("[4, 6]", dtype="[]"),
    "no dtype": '{"w": {"shape": [4, 6], "data_offsets": [0, 96]}}',
    "a number": '{"w": 7}',
    "a list": "[1, 2]",
    "not JSON": "{",
    "not text": "\udc80".encode("utf-8", "surrogatepass").decode("latin-1"),
}


@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG)
def test_weights_that_are_wrong_are_told(header: str) -> None:
    with pytest.raises(TesseraError) as caught:
        read_safetensors(weights(header, bytes(96)))
    assert caught.value.code == "E0929"


def test_deep_weights_are_told_while_a_compiler_has_room() -> None:
    with deep_recursion(), pytest.raises(TesseraError, match="nested too deeply"):
        read_safetensors(weights(WRONG["deep"], bytes(96)))


def test_weights_that_are_right_are_read() -> None:
    data = encode_safetensors({"w": np.arange(24, dtype=np.float32).reshape(4, 6), "e": np.zeros((0, 3), np.int8)})
    Path("w.safetensors").write_bytes(data)
    found = read_safetensors("w.safetensors")
    assert found["w"][3, 5] == 23 and found["e"].shape == (0, 3)
    assert json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["w"]["shape"] == [4, 6]
