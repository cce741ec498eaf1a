"""Signed bundles, and bundles for processors that have more than this one."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.processor import instructions
from tesserac import cli
from tests.support.caches import new_cache

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
TEXT = "def double(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return x * 2.0\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("p.tess").write_text(TEXT)
    for name in ("own", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        Path(f"{name}.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        Path(f"{name}.pub").write_bytes(key.public_key().public_bytes(pem, public))


def build(*words: str) -> int:
    return cli.main(cli.compiler, "tesserac", ["build", "p.tess", *words])


def code(**options: object) -> str:
    try:
        module = tessera.load("p.tessb", **options)  # type: ignore[arg-type]
    except TesseraError as error:
        return error.code
    assert module.double(np.ones(1, np.float32)).tolist() == [2]
    return ""


@pytest.mark.one_in(2)
def test_only_a_trusted_key_opens_a_bundle() -> None:
    assert build("--sign", "own.pem") == 0
    assert code(trusted="own.pub") == code(trusted=Path("own.pub")) == code(trusted=["other.pub", "own.pub"]) == ""
    assert code() == "", "without keys nothing is asked for"
    assert code(trusted="other.pub") == code(trusted=["other.pub"]) == code(trusted=[]) == "E0953"
    assert build() == 0
    assert code(trusted="own.pub") == "E0953"


def test_a_signed_bundle_that_was_changed_is_refused() -> None:
    assert build("--sign", "own.pem") == 0
    whole, dice = Path("p.tessb").read_bytes(), random.Random(3)
    for _ in range(100):
        at, damaged = dice.randrange(len(whole) * 8), bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        Path("p.tessb").write_bytes(damaged)
        assert code(trusted="own.pub") == "E0953"
    Path("p.tessb").write_bytes(whole[:50])
    assert code(trusted="own.pub") == "E0953" and code() == "E0910"


@pytest.mark.one_in(2)
def test_keys_that_cannot_be_used_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.pem").write_text("no key")
    for key in ("text.pem", "own.pub", "absent.pem"):
        assert build("--sign", key) == 2 and not Path("p.tessb").exists()
        assert key in capsys.readouterr().err
    assert build("--sign", "own.pem", "--emit", "graph") == 2
    assert build("--sign", "own.pem") == 0
    assert code(trusted="text.pem") == code(trusted="own.pem") == "E0953"
    assert code(trusted="absent.pub") == "E0901" and code(trusted=7) == "E0920"
    with pytest.raises(TesseraError, match="for bundles"):
        tessera.load("p.tess", trusted="own.pub")


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert build("--sign", "own.pem") == 2
    assert "need the package cryptography" in capsys.readouterr().err


def test_a_processor_that_lacks_instructions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build() == 0
    here = instructions()
    assert here is not None
    monkeypatch.setattr("tessera.bundle.instructions", lambda: frozenset())
    with pytest.raises(TesseraError, match="which this one lacks") as caught:
        tessera.load("p.tessb").double(np.ones(2, "f4"))
    assert caught.value.code == "E0911"
    monkeypatch.setattr("tessera.bundle.instructions", lambda: None)
    assert code() == "", "where the system does not tell, nothing is refused"
