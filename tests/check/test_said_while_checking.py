"""`tesserac check` says what a build would refuse, wherever the program alone decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tesserac import cli
from tesserac.base.source import SourceFile
from tesserac.graph import expansion
from tests.support.caches import new_cache
from tests.support.checking import diagnose

HELPER = "def power(x: Tensor[K, c64]) -> Tensor[f32]:\n    return sum(abs(fft(x)))\n\n"
HEAD = "def f(x: Tensor[N, c64]) -> Tensor[f32]:\n    s = cast(0.0, f32)\n    for i in range(1, N):\n        s += {}\n"
EXPORTED = (
    "lambda x: x * c",
    "grad(lambda v: sum(v * c))",
    "(c, {'f': sin})",
    "op.implicit(lambda x: x * c, lambda x: x * c, N)",
    "c.dtype",
)


def tower(levels: int) -> str:
    """Functions that each call the one before twice; what is `fast` is not called, but written out."""
    head, fast = "(x: Tensor[N, f32]) -> Tensor[N, f32]:\n", "    with numerics(fast):\n        return "
    made = [f"def f{i}{head}{fast}{f'f{i - 1}(f{i - 1}(x))' if i else 'sin(x)'}\n" for i in range(levels)]
    return "\n".join(made)


def codes(text: str) -> list[str]:
    return [d.code for d in diagnose(SourceFile("m.tess", text))]


def check(tmp_path: Path, text: str, *words: str) -> int:
    (tmp_path / "p.tess").write_text(text, encoding="utf-8")
    return cli.main(cli.compiler, "tesserac", ["check", str(tmp_path / "p.tess"), *words])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("words", [(), ("--explain-guards",)])
def test_a_program_that_becomes_too_large(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    assert check(tmp_path, tower(18), *words) == 1 and "error[E0317]: `f17`" in capsys.readouterr().out
    assert check(tmp_path, tower(9), *words) == 0


NESTED = """
def g(x: Tensor[f32]) -> Tensor[f32]:
    return exp(sin(x) * tanh(x))

def nth(f, k: int):
    return f if k == 0 else nth(grad(f), k - 1)

def h(x: Tensor[f32]) -> Tensor[f32]:
    return nth(g, {})(x)
"""


@pytest.mark.one_in(3)
def test_derivatives_of_derivatives_that_become_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))
    monkeypatch.setattr(expansion, "MAX_OPERATORS", 1000)
    assert check(tmp_path, NESTED.format(3)) == 0
    capsys.readouterr()
    assert check(tmp_path, NESTED.format(7)) == 1
    said = capsys.readouterr().out
    assert "error[E0317]: `h`" in said and "a derivative" in said and "loop" not in said


def test_a_length_that_changes_in_a_loop() -> None:
    end = "    return s\n"
    assert codes(HELPER + HEAD.format("power(x[:i])") + end) == ["E0228"]
    assert codes(HEAD.format("sum(real(ifft(fft(x[i:]))))") + end) == ["E0228"]
    assert codes(HELPER + HEAD.format("power(x) * float(i)") + end) == []


@pytest.mark.parametrize("value", EXPORTED)
def test_what_is_exported_can_leave_the_language(value: str) -> None:
    text = f"def f(c: Tensor[N, f32]):\n    return {value}\n"
    assert codes(text) == [] and codes("@export\n" + text) == ["E0229"]
