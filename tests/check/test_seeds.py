"""The snippets of the papers that Tessera came from are its first acceptance test: as they were written, each parses;
with its free names declared, each checks; and those that need neither a GPU nor several devices run."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.diag.render import render
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tesserac.target.cpu.build import AARCH64
from tests.support.paths import CASES
from tests.support.sampling import spread

pytestmark = pytest.mark.slow

UNUSED_IMPORT = "W0211"
"""A snippet that only imports is no mistake."""
SEEDS = sorted((CASES / "seeds").glob("*.tess"))
DECLARED = {
    "attention_module": "",
    "flash_attention": "",
    "mesh": "",
    "numerics": "",
    "operator_algebra": """
M = arange(16, dtype=f32).reshape(4, 4) / 10.0
A = op.dense(M + M.T, self_adjoint=True)
I = op.eye(4)
U = eye(4)[:, :2]
S = spectral(A)
k = 2
x = arange(4, dtype=f32)
dA = op.dense(M)
dx = ones(4)
""",
    "parallel": "",
    "placement": """
mesh = dist.Mesh(axes=["dp"], devices=range(1))
BM, BN, BK = 128, 128, 64
def block(m: int, n: int): return Schedule().block(m, n)
""",
    "quick_example": "",
    "schedule_inheritance": "",
    "space": "",
    "shard_spec": 'mesh = dist.Mesh(axes=["tp", "pp"], devices=range(8), shape=[2, 4])\n',
    "stdlib_import": "my_custom_schedule = Schedule(block=(64, 64), warps=4)\n",
    "tile_shape": "A = arange(12, dtype=f32).reshape(3, 4)\nB = ones(4, 5)\n",
    "transformer_block": """
param Wqkv: Tensor[D, "3*D", bf16 @accum(f32)]
param Wo: Tensor[D, D, bf16 @accum(f32)]
param Wmlp_in: Tensor[D, F, bf16 @accum(f32)]
param Wmlp_out: Tensor[F, D, bf16 @accum(f32)]
""",
    "type_forms": "T = f32\ndtype = bf16\nk = 1024\nparam = ones(3)\n",
    "verify_numerics": "d = 16\n",
}
"""What a test has to say before a snippet: the names that it leaves free."""
TABLE = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in (SEEDS[0].parent / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| paper")
]
"""Of every snippet: the paper, what it is, its file, and whether it runs or only checks, and why."""


def text_of(name: str) -> str:
    return next(path for path in SEEDS if path.stem == name).read_text(encoding="utf-8")


RUN_BLOCK = """
def run(x: Tensor[B, S, D, bf16 @accum(f32)], cache: KVCache[B, 2, M, "D/2", bf16 @accum(f32)]):
    return transformer_block(x, cache, heads=2, p=0.0)
"""


def compiled(name: str, more: str = "") -> Any:
    return tessera.compile(DECLARED[name] + on_a_cpu(text_of(name)) + more)


def on_a_cpu(text: str) -> str:
    """A snippet without what a CPU does not honour: a placement on a GPU, and a cache that rolls by its type."""
    placed = re.sub(r"with device\(gpu(\[n\])?\)", "with device(cpu)", text)
    return placed.replace(" @rolling_window", "").replace(" @device(gpu)", "")


@pytest.mark.parametrize(
    ("name", "call", "code"),
    [
        ("transformer_block", RUN_BLOCK, "E0906"),
        ("placement", "def run(c: KVCache[1, 1, 4, 2, f32]): return placed(c, 1)", "E0906"),
        ("type_forms", "def run(c: cache): return c.len", "E0907"),
    ],
)
def test_what_a_cpu_does_not_honour_is_told(name: str, call: str, code: str) -> None:
    """The snippets as they stand: never another device, and never another meaning, in silence."""
    text = (DECLARED[name] + text_of(name)).replace("spectral = ", "spectral_form = ")
    source = SourceFile(f"{name}.tess", f"{text}\n{call}\n")
    session = Session()
    assert not session.check(source).errors
    with pytest.raises(ProgramError) as caught:
        session.artifact(source, session.function(source, "run"), AARCH64)
    assert code in {diagnostic.code for diagnostic in caught.value.diagnostics}


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_seed_parses(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    result = parse_module(source)
    assert not result.diagnostics, "\n".join(render(d, {source.path: source}) for d in result.diagnostics)
    assert result.module.items


def test_the_seeds_are_there() -> None:
    assert len(SEEDS) == 16 and len(TABLE) == 23 and all(len(row) == 4 for row in TABLE)
    assert {path.stem for path in SEEDS} == {*DECLARED} == {row[2] for row in TABLE}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", DECLARED)
def test_seed_checks(name: str) -> None:
    source = SourceFile(f"{name}.tess", DECLARED[name] + text_of(name))
    found = [d for d in Session().check(source).diagnostics if d.code != UNUSED_IMPORT]
    assert not found, "\n".join(render(d, {source.path: source}) for d in found)


# ------------------------------------------------------------------------------------------------------------ runs


def softmax(s: np.ndarray) -> np.ndarray:
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


@pytest.mark.one_in(6)
def test_attention_module() -> None:
    q, k, v = normal(4, 8), normal(6, 8), normal(6, 3)
    expected = softmax(q.astype("f8") @ k.T.astype("f8")) @ v
    assert np.allclose(compiled("attention_module").attention(q, k, v), expected, rtol=1e-5, atol=1e-6)


F32_CACHE = """
@kernel
def flash_f32(q: KTile["B*H", S, D, f32], cache: KVCache):
    T = tile.context()
    Qb = tile.load(q, rows=T.m, cols=T.d)
    acc = tile.zeros((T.m, T.d), f32); m = tile.full((T.m,), -INF); l = tile.zeros((T.m,), f32)
    for n in tile.range_n(cache.K.shape, T.n):
        S = tile.dot(Qb, tile.transpose(tile.load(cache.K, n, cols=T.d))) * tile.rsqrt(float(T.d))
        tile.mask_causal(S, tile.row_index(), tile.col_index(n))
        P, mc, lc = tile.softmax_online(S)
        acc, m, l = tile.softmax_accumulate(acc, m, l, P, tile.load(cache.V, n, cols=T.d), mc, lc)
    return acc / l[:, None]

def both(q: Tensor[B, H, S, D, f32], cache: KVCache[B, H, M, D, f32]):
    library = op.flash_attention(q, cache, causal=True)
    return merge_heads(reshape(flash_f32(q, cache), (B, H, S, D))), library
"""


@pytest.fixture(scope="module")
def flash() -> Any:
    return compiled("flash_attention", F32_CACHE)


@pytest.mark.one_in(16)
def test_a_flash_kernel_has_the_bits_of_the_library(flash: Any) -> None:
    q, k, v = normal(2, 3, 5, 16), normal(2, 3, 40, 16), normal(2, 3, 40, 16)[..., ::-1]
    kernel, library = flash.both(q, {"K": k, "V": v.copy(), "len": np.int32(33)})
    assert np.array_equal(kernel, library)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 2, 4, 8, 6, 16), (2, 3, 5, 9, 9, 8), (1, 1, 1, 7, 3, 4), (1, 2, 3, 3, 3, 64)])
def test_flash_attention(flash: Any, causal: bool, shape: tuple[int, ...]) -> None:
    """B, H, queries, room in the cache, its length, D; what is beyond must not show. Three roundings, each of 2^-9."""
    b, h, queries, room, length, d = shape
    arrays = (normal(b * h, queries, d), normal(b, h, room, d), normal(b, h, room, d)[..., ::-1])
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in arrays)
    k[:, :, length:], v[:, :, length:] = np.nan, np.inf
    cache = {"K": k, "V": v, "len": np.int32(length)}
    found = flash.flash_attention(q, cache, dropout=0.0, causal=causal)
    keys, values = (x[:, :, :length].astype("f8").reshape(b * h, length, d) for x in (k, v))
    scores = q.astype("f8") @ keys.transpose(0, 2, 1) / np.sqrt(d)
    if causal:
        rows = np.arange(queries)[:, None] + length - queries
        scores = np.where(np.arange(length)[None] <= rows, scores, -np.inf)
    terms = softmax(scores)
    assert found.dtype == ml_dtypes.bfloat16
    assert (np.abs(found.astype("f8") - terms @ values) <= 3 * 2**-9 * (terms @ np.abs(values)) + 1e-6).all()


@pytest.mark.one_in(4)
def test_flash_attention_drops_out(flash: Any) -> None:
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in (normal(2, 4, 8), normal(1, 2, 64, 8), normal(1, 2, 64, 8)))
    cache = {"K": k, "V": v, "len": np.int32(64)}
    flash.seed(0)
    dropped = flash.flash_attention(q, cache, dropout=0.5, causal=False).astype("f8")
    kept = flash.flash_attention(q, cache, dropout=0.0, causal=False).astype("f8")
    assert np.isfinite(dropped).all() and not np.allclose(dropped, kept, rtol=1e-2)


@pytest.mark.one_in(12)
def test_transformer_block() -> None:
    """Two new positions after three in the cache."""
    b, s, d, f, room, length = 2, 2, 8, 12, 7, 3
    narrow = ml_dtypes.bfloat16
    names = {"Wqkv": (d, 3 * d), "Wo": (d, d), "Wmlp_in": (d, f), "Wmlp_out": (f, d)}
    weights = {name: (normal(*shape) * 0.3).astype(narrow) for name, shape in names.items()}
    x, k, v = (a.astype(narrow) for a in (normal(b, s, d), normal(b, 2, room, d // 2), -normal(b, 2, room, d // 2)))
    m = compiled("transformer_block", RUN_BLOCK)
    m.params = weights
    y, cache = m.run(x, {"K": k, "V": v, "len": np.int32(length)})
    assert cache.len == length + s and np.array_equal(cache.K[:, :, :length], k[:, :, :length])
    expected = transformer_reference(x, k, v, {name: w.astype("f8") for name, w in weights.items()}, length)
    assert y.dtype == narrow and np.abs(y.astype("f8") - expected).max() < 0.06


def transformer_reference(x: Any, k: Any, v: Any, w: dict[str, Any], length: int) -> Any:
    def rms(t: Any) -> Any:
        return t / np.sqrt((t**2).mean(-1, keepdims=True) + 1e-5)

    def heads(t: Any) -> Any:
        return t.reshape(*t.shape[:2], 2, -1).transpose(0, 2, 1, 3)

    x = rms(x.astype("f8"))
    q, new_k, new_v = (heads(part) for part in np.split(x @ w["Wqkv"], 3, axis=-1))
    k, v = (np.concatenate([old[:, :, :length].astype("f8"), new], 2) for old, new in ((k, new_k), (v, new_v)))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    rows = np.arange(q.shape[2])[:, None] + length
    y = softmax(np.where(np.arange(k.shape[2])[None] <= rows, scores, -np.inf)) @ v
    y = x + y.transpose(0, 2, 1, 3).reshape(x.shape) @ w["Wo"]
    inner = rms(y) @ w["Wmlp_in"]
    erf = np.vectorize(math.erf)
    return y + inner * 0.5 * (1 + erf(inner / np.sqrt(2))) @ w["Wmlp_out"]


@pytest.mark.one_in(8)
def test_stdlib_import() -> None:
    more = """
def attend(q: Tensor[B, H, S, D, f32], cache: KVCache[B, H, M, D, f32]): return my_attention(q, cache)
def step(w: Tensor[N, f32], g: Tensor[N, f32], t: i32): return fused_adam(w, g, zeros(N), zeros(N), t, lr=0.1)
def rest(x: Tensor[M, N, f32]): return stable_softmax(x), efficient_layernorm(x), rotary_embedding(x)
"""
    m = compiled("stdlib_import", more)
    q, k = normal(1, 2, 3, 4), normal(1, 2, 5, 4)
    expected = softmax(q @ k.transpose(0, 1, 3, 2) / 2) @ k
    found = m.attend(q, {"K": k, "V": k, "len": np.int32(5)})
    assert np.allclose(found, expected.transpose(0, 2, 1, 3).reshape(1, 3, 8), rtol=1e-5, atol=1e-6)
    w, g = normal(6), normal(6) + 3
    moved, mean, square = m.step(w, g, 1)
    assert np.allclose(moved, w - 0.1 * np.sign(g), rtol=1e-5, atol=1e-6)
    assert np.allclose(mean, 0.1 * g, rtol=1e-5) and np.allclose(square, 0.001 * g * g, rtol=1e-3)
    assert np.allclose(m.rest(normal(3, 4))[0], softmax(normal(3, 4)), rtol=1e-5)


def test_quick_example() -> None:
    found = compiled("quick_example", "\ndef result(): return Y\n").result()
    assert found.shape == (1024, 1024) and not found.any()


@pytest.mark.one_in(3)
def test_schedule_inheritance() -> None:
    q, k = normal(4, 8), normal(6, 8)
    found = compiled("schedule_inheritance").small_attention(q, k)
    assert np.allclose(found, q @ k.T, rtol=1e-5, atol=1e-5)


def test_tile_shape() -> None:
    found = compiled("tile_shape", "\ndef result(): return Y\n").result()
    assert np.array_equal(found, np.arange(12, dtype="f4").reshape(3, 4) @ np.ones((4, 5), "f4"))


@pytest.mark.one_in(48)
def test_operator_algebra() -> None:
    more = """
def result(): return applied, laws, checks, tangent
def used(v: Tensor[4, f32]): return tuple_of(spectra, v)
def tuple_of(forms, v): return [form @ v for form in forms]
def made():
    eye_, zero_, dense_, diag_, projector_, fft_, conv1d_, kronecker_, direct_sum_ = constructors
    compose_, adjoint_ = operations[0], operations[1]
    return eye_(2), compose_(dense_(M), adjoint_(dense_(M))) @ x, kronecker_(I, I) == op.eye(16)
"""
    m = compiled("operator_algebra", more)
    matrix = np.arange(16, dtype="f8").reshape(4, 4) / 10
    a, x = matrix + matrix.T, np.arange(4)
    applied, laws, (size, unitary, radius), tangent = m.result()
    assert all(np.allclose(y, a @ x, rtol=1e-6) for y in applied) and all(laws) and len(laws) == 4
    w = np.abs(np.linalg.eigvalsh(a)).max()
    assert np.allclose([size, radius], w, rtol=1e-6) and not unitary
    assert np.allclose(tangent, matrix @ x + a @ np.ones(4), rtol=1e-6)
    v = normal(4)
    expected = (a, a, a, np.linalg.pinv(a, rcond=1e-6))  # of rank 2
    for y, form in zip(m.used(v), expected, strict=True):
        assert np.allclose(y, form @ v, rtol=1e-4, atol=1e-4)
    identity, product, same = m.made()
    assert np.array_equal(identity, np.eye(2)) and np.allclose(product, matrix @ matrix.T @ x, rtol=1e-5) and same


@pytest.mark.one_in(4)
def test_verify_numerics() -> None:
    m = compiled("verify_numerics")
    q, k = normal(4, 16), normal(6, 16)
    assert np.allclose(m.attention_score(q, k), q @ k.T / 4, rtol=1e-5, atol=1e-5)
    with pytest.raises(tessera.TesseraError, match="attention_score"):
        m.attention_score(q * 100, k * 100)


@pytest.mark.one_in(4)
def test_numerics() -> None:
    more = """
def safe_of(x: Tensor[M, N, f32]):
    softmax_, layernorm_, rmsnorm_, logsumexp_ = safe
    return softmax_(x), layernorm_(x), rmsnorm_(x), logsumexp_(x, axis=-1)
"""
    m = compiled("numerics", more)
    m.seed(0)
    wide = np.array([[1.001, 1e6]], "f4")
    same, rounded, clamped = m.policies(np.ones((1, 2), "f2"), wide)
    assert same.dtype == np.float16 and rounded.dtype == ml_dtypes.bfloat16
    assert clamped.dtype == ml_dtypes.float8_e4m3fn and clamped.astype("f4").tolist() == [[1, 448]]
    found = m.safe_of(np.array([[-np.inf, -np.inf]], "f4"))
    assert not found[0].any() and found[3].tolist() == [-np.inf]


@pytest.mark.one_in(24)
def test_type_forms() -> None:
    """As what they are for: the types of parameters."""
    more = """
def applied(A: operator, x: Tensor[Din, f32]): return A @ x
def kept(A: spectral_form, x: Tensor[D, f32]): return truncate(A, 1) @ x
def narrowed(x: symbolic): return x, cast(x, narrow @saturate)
def filled(c: cache): return c.len
def run(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    return applied(op.dense(m), x), kept(spectral(op.dense(m, self_adjoint=True)), x)
"""
    text = on_a_cpu(text_of("type_forms")).replace("spectral = ", "spectral_form = ")
    m = tessera.compile(DECLARED["type_forms"] + text + more)
    matrix, x = np.diag([2, 5, -1]).astype("f4"), np.ones(3, "f4")
    applied, kept = m.run(matrix, x)
    assert np.allclose(applied, [2, 5, -1]) and np.allclose(kept, [0, 5, 0], atol=1e-5)
    same, narrow = m.narrowed(np.ones((2, 3), "f2"))
    assert same.dtype == np.float16 and narrow.dtype == ml_dtypes.float8_e4m3fn
    room = np.zeros((1, 2, 3, 4), ml_dtypes.bfloat16)
    assert m.filled({"K": room, "V": room, "len": np.int32(2)}) == 2


SCHEDULED = """
@kernel.{how}
def doubled(x: KTile[M, N, f32]):
    T = tile.context()
    return tile.load(x, rows=T.m) * float(T.warps)
"""


def test_placement() -> None:
    more = SCHEDULED.format(how="schedule(chained)") + """
def run(cache: KVCache[1, 1, 4, 2, f32], x: Tensor[M, N, f32]):
    with mesh(layout=layout):
        return placed(cache, 1).len, doubled(x)
"""
    m = compiled("placement", more)
    room = np.zeros((1, 1, 4, 2), "f4")
    length, doubled = m.run({"K": room, "V": room, "len": np.int32(3)}, np.ones((2, 3), "f4"))
    assert length == 3 and np.array_equal(doubled, np.full((2, 3), 8, "f4"))


def test_space() -> None:
    m = compiled("space", SCHEDULED.format(how="autotune(space=space)"))
    assert np.array_equal(m.doubled(np.ones((2, 3), "f4")), np.full((2, 3), 4, "f4"))  # the first of the space


def test_every_row_of_the_table_is_made_good() -> None:
    ran = {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in DECLARED}
    assert ran == {row[2] for row in TABLE if row[3].startswith("runs")}
    assert all(row[3].startswith(("runs", "checks: ")) for row in TABLE)


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


@pytest.mark.one_in(48)
@pytest.mark.parametrize("sizes", spread([(1, 1, 1, 1), (1, 1, 2, 8), (2, 4, 4, 4), (8, 8, 8, 8), (2, 2, 2, 2)], 2))
def test_a_transformer_block_is_called_from_python(sizes: tuple[int, ...]) -> None:
    """Its cache has no sizes of its own: in every call they are what they are, whichever others they equal there."""
    batch, steps, heads, room = sizes
    d, f = 8, 12
    names = {"Wqkv": (d, 3 * d), "Wo": (d, d), "Wmlp_in": (d, f), "Wmlp_out": (f, d)}
    m = compiled("transformer_block")
    m.params = {name: (normal(*shape) * 0.3).astype(ml_dtypes.bfloat16) for name, shape in names.items()}
    x, k = (a.astype(ml_dtypes.bfloat16) for a in (normal(batch, steps, d), normal(batch, heads, room, d // heads)))
    y, cache = m.transformer_block(x, {"K": k, "V": k, "len": np.int32(room - steps)}, heads=heads, p=0.0)
    assert y.shape == x.shape and cache.len == room and np.isfinite(y.astype("f4")).all()
    with pytest.raises(tessera.TesseraError, match="E0925"):
        m.transformer_block(x, {"K": k, "V": k, "len": np.int32(0)}, heads=2 if heads == 1 else heads // 2, p=0.0)
