"""The snippets of the papers that Tessera came from are its first acceptance test: as they were written, each parses;
with its free names declared, each checks; and those that need neither a GPU nor several devices run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Severity
from tesserac.diag.render import render
from tesserac.session import Session
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module

SEEDS = sorted((Path(__file__).parent / "cases" / "seeds").glob("*.tess"))
CACHE = """
struct KVCache[B, H, S, D]:
    K: Tensor[B, H, S, D, bf16 @accum(f32)]
    V: Tensor[B, H, S, D, bf16 @accum(f32)]
    len: i32
"""
DECLARED = {
    "attention_module": "",
    "flash_attention": CACHE + "def dropout_in_kernel(P, p: float): return dropout(P, p)\n",
    "mesh": "",
    "placement": CACHE
    + """
mesh = dist.Mesh(axes=["dp"], devices=range(1))
BM, BN, BK = 128, 128, 64
def block(m: int, n: int): return Schedule().block(m, n)
""",
    "quick_example": "",
    "schedule_inheritance": "",
    "shard_spec": 'mesh = dist.Mesh(axes=["tp", "pp"], devices=range(8), shape=[2, 4])\n',
    "tile_shape": "A = arange(12, dtype=f32).reshape(3, 4)\nB = ones(4, 5)\n",
    "verify_numerics": "d = 16\n",
}
"""What a test has to say before a snippet: the names that it leaves free."""
ONLY_CHECKED = {
    "mesh": "72 devices on three axes whose shape is not said",
    "placement": "gpu[n] is another device",
    "shard_spec": "a tensor of a million by a million",
}
"""Snippets that do not run here, and why."""
LATER = {
    "operator_algebra": "operators are values of a later day",
    "stdlib_import": "kernels of the library that are not there yet",
    "transformer_block": "the cache of the library is not there yet",
    "type_forms": "types of operators, caches and optimiser state are not there yet",
}
"""Snippets that do not check yet, and why."""


def text_of(name: str) -> str:
    return next(path for path in SEEDS if path.stem == name).read_text(encoding="utf-8")


def compiled(name: str, more: str = "") -> Any:
    return tessera.compile(DECLARED[name] + text_of(name) + more)


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_seed_parses(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    result = parse_module(source)
    assert not result.diagnostics, "\n".join(render(d, {source.path: source}) for d in result.diagnostics)
    assert result.module.items


def test_the_seeds_are_there() -> None:
    assert len(SEEDS) == 13
    assert {path.stem for path in SEEDS} == {*DECLARED, *LATER}


@pytest.mark.parametrize("name", DECLARED)
def test_seed_checks(name: str) -> None:
    source = SourceFile(f"{name}.tess", DECLARED[name] + text_of(name))
    found = Session().check(source).diagnostics
    assert not found, "\n".join(render(d, {source.path: source}) for d in found)


@pytest.mark.parametrize("name", LATER)
def test_a_seed_of_a_later_day_says_so(name: str) -> None:
    found = Session().check(SourceFile(f"{name}.tess", text_of(name))).diagnostics
    assert any(d.severity is Severity.ERROR for d in found), "it checks by now: move it to DECLARED"


# ------------------------------------------------------------------------------------------------------------ runs


def softmax(s: np.ndarray) -> np.ndarray:
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def test_attention_module() -> None:
    q, k, v = normal(4, 8), normal(6, 8), normal(6, 3)
    expected = softmax(q.astype("f8") @ k.T.astype("f8")) @ v
    assert np.allclose(compiled("attention_module").attention(q, k, v), expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def flash() -> Any:
    return compiled("flash_attention")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 2, 4, 8, 6, 16), (2, 3, 5, 9, 9, 8), (1, 1, 1, 7, 3, 4), (1, 2, 3, 3, 3, 64)])
def test_flash_attention(flash: Any, causal: bool, shape: tuple[int, ...]) -> None:
    """B, H, queries, room in the cache, its length, D; what is beyond the length must not show."""
    b, h, queries, room, length, d = shape
    arrays = (normal(b * h, queries, d), normal(b, h, room, d), normal(b, h, room, d)[..., ::-1])
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in arrays)
    k[:, :, length:], v[:, :, length:] = np.nan, np.inf
    found = flash.flash_attention(q, flash.KVCache(K=k, V=v, len=np.int32(length)), dropout=0.0, causal=causal)
    keys, values = (x[:, :, :length].astype("f8").reshape(b * h, length, d) for x in (k, v))
    scores = q.astype("f8") @ keys.transpose(0, 2, 1) / np.sqrt(d)
    if causal:
        rows = np.arange(queries)[:, None] + length - queries
        scores = np.where(np.arange(length)[None] <= rows, scores, -np.inf)
    expected = softmax(scores) @ values
    assert found.dtype == ml_dtypes.bfloat16
    assert np.allclose(found.astype("f8"), expected, rtol=2**-8, atol=1e-6)


def test_flash_attention_drops_out(flash: Any) -> None:
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in (normal(2, 4, 8), normal(1, 2, 64, 8), normal(1, 2, 64, 8)))
    cache = flash.KVCache(K=k, V=v, len=np.int32(64))
    flash.seed(0)
    dropped = flash.flash_attention(q, cache, dropout=0.5, causal=False).astype("f8")
    kept = flash.flash_attention(q, cache, dropout=0.0, causal=False).astype("f8")
    assert np.isfinite(dropped).all() and not np.allclose(dropped, kept, rtol=1e-2)


def test_quick_example() -> None:
    found = compiled("quick_example", "\ndef result(): return Y\n").result()
    assert found.shape == (1024, 1024) and not found.any()


def test_schedule_inheritance() -> None:
    q, k = normal(4, 8), normal(6, 8)
    found = compiled("schedule_inheritance").small_attention(q, k)
    assert np.allclose(found, q @ k.T, rtol=1e-5, atol=1e-5)


def test_tile_shape() -> None:
    found = compiled("tile_shape", "\ndef result(): return Y\n").result()
    assert np.array_equal(found, np.arange(12, dtype="f4").reshape(3, 4) @ np.ones((4, 5), "f4"))


def test_verify_numerics() -> None:
    m = compiled("verify_numerics")
    q, k = normal(4, 16), normal(6, 16)
    assert np.allclose(m.attention_score(q, k), q @ k.T / 4, rtol=1e-5, atol=1e-5)
    with pytest.raises(tessera.TesseraError, match="attention_score"):
        m.attention_score(q * 100, k * 100)


def test_every_other_snippet_says_why_it_does_not_run() -> None:
    ran = {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in DECLARED}
    assert ran | ONLY_CHECKED.keys() == DECLARED.keys() and not ran & ONLY_CHECKED.keys()


def test_a_kernel_of_the_seeds_in_detail() -> None:
    (kernel,) = parse_module(SourceFile("flash_attention.tess", text_of("flash_attention"))).module.items
    assert isinstance(kernel, ast.FunctionDef)
    assert [(p.name, p.keyword_only) for p in kernel.parameters] == [
        ("q", False),
        ("cache", False),
        ("dropout", True),
        ("causal", True),
    ]
    assert [type(s).__name__ for s in kernel.body] == ["Assignment"] * 5 + ["For", "Return"]
    loop = kernel.body[5]
    assert isinstance(loop, ast.For)
    assert [type(s).__name__ for s in loop.body if isinstance(s, ast.If)] == ["If", "If"]
