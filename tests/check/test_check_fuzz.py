"""Broken programs: the checker never raises, and never accepts in silence what it could not check."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.diag.diagnostic import Severity
from tesserac.diag.render import render
from tesserac.syntax.parse import parse_module
from tests.support import sampling
from tests.support.checking import diagnose, library
from tests.support.paths import CASES

FOLDER = CASES / "check"
TEXTS = [re.sub(r" *#.*", "", path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.tess"))]
TOKEN = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|[-+*/@%]|==|<=|[\[\](),:.<>=]")
WORDS = [
    "N", "M", "D", "x", "y", "f32", "bf16", "i32", "bool", "1", "0", "2", "-1", "0.5", "None", "True", "...", ":",
    "softmax", "sum", "exp", "zeros", "reshape", "axis", "Tensor", "int", "(", ")", "[", "]", "+", "@", "/", "//", "=",
    "lambda", "where", "range", "N/2", '"N"', "x.T", "x.shape", "cast", "narrow", "f", "@accum(f32)", "float",
]  # fmt: skip


def mutate(text: str, random: random.Random, count: int) -> str:
    for _ in range(count):
        tokens = list(TOKEN.finditer(text))
        if not tokens:
            return text
        token, other = random.choice(tokens), random.choice(tokens)
        new = random.choice([random.choice(WORDS), other[0], "", f"{token[0]} {other[0]}"])
        text = text[: token.start()] + new + text[token.end() :]
    return text


def check(text: str) -> tuple[CheckResult, tuple[SourceFile, bool]]:
    source = SourceFile("example.tess", text)
    parsed = parse_module(source)
    return check_module(parsed.module, source, "example", library()), (source, bool(parsed.diagnostics))


def unexplained(result: CheckResult) -> list[str]:
    """Functions that were not handed on although no error says why, and not because only calls complete them."""
    if any(d.severity is Severity.ERROR for d in result.diagnostics):
        return []
    checker = result.checker
    done = {f.name for f in result.module.functions}
    missing = [name for name in checker.names.functions if name not in done]
    return [n for n in missing if not checker.own_signature(n).has_open_parameters and not needs_value(result, n)]


def needs_value(result: CheckResult, name: str) -> bool:
    return result.checker.own_instance(name, result.checker.representatives(name)[0]).needs_value


@pytest.mark.one_in(6)
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False), st.integers(1, 4))
def test_mutants_are_checked_or_refused(text: str, random: random.Random, count: int) -> None:
    pieces = re.split(r"\n(?=\S)", text)
    piece = random.choice(pieces)
    mutant = "\n".join([*(p for p in pieces if p is not piece), mutate(piece, random, count)]) + "\n"
    result, (source, is_broken) = check(mutant)
    assert is_broken or unexplained(result) == []  # of a statement that does not parse, the parser says why
    sources = {source.path: source, **result.checker._sources}
    for diagnostic in result.diagnostics:
        assert diagnostic.primary.span.file in sources
        assert render(diagnostic, sources)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("text", TEXTS, ids=[path.stem for path in sorted(FOLDER.glob("*.tess"))])
def test_every_prefix_is_checked(text: str) -> None:
    """What an editor sends while a program is typed, every few characters."""
    for end in range(0, len(text), max(len(text) // (25 if sampling.thorough else 5), 1)):
        diagnose(SourceFile("example.tess", text[:end]))


CORRECT = """
def attention(x: Tensor[B, S, D, f32], wq: Tensor[D, H, f32], wk: Tensor[D, H, f32], wv: Tensor[D, E, f32]):
    q = x @ wq
    k = x @ wk
    v = x @ wv
    p = softmax(q @ k.T * rsqrt(float(H)), axis=-1)
    return p @ v

def layer(x: Tensor[B, D, f32], w: Tensor[D, F, f32], b: Tensor[F, f32]) -> Tensor[B, F, f32]:
    h = x @ w + b
    m = mean(h, axis=F, keep=True)
    c = h - m
    return relu(c * rsqrt(mean(c * c, axis=F, keep=True) + 0.00001))

def heads(x: Tensor[B, S, D, f32], h: int) -> Tensor[B, h, S, D/h, f32] where D % h == 0:
    return permute(reshape(x, (B, S, h, D/h)), (0, 2, 1, 3))
"""


def dim_mutants(seed: int, count: int) -> list[tuple[str, int]]:
    """Correct programs with one dim of one annotation renamed, and the line of the change."""
    rng = random.Random(seed)
    places = [m for m in re.finditer(r"(?<=[\[ ])[A-Z](?=[,\]])", CORRECT) if "def " in _line(m.start())]
    mutants = []
    for _ in range(count):
        place = rng.choice(places)
        new = rng.choice([name for name in "BSDHEF" if name != place[0]])
        mutants.append((CORRECT[: place.start()] + new + CORRECT[place.end() :], CORRECT[: place.start()].count("\n")))
    return mutants


def _line(offset: int) -> str:
    start = CORRECT.rfind("\n", 0, offset) + 1
    return CORRECT[start : CORRECT.find("\n", offset)]


@pytest.mark.one_in(16)
def test_a_renamed_dim_is_found_and_shown() -> None:
    """One diagnostic each, and the changed line is among its places; renamings that mean the same do not count."""
    assert diagnose(SourceFile("example.tess", CORRECT)) == ()
    found = single = shown = total = 0
    for text, line in dim_mutants(seed=1, count=150):
        source = SourceFile("example.tess", text)
        diagnostics = diagnose(source)
        total += 1
        found += bool(diagnostics)
        single += len(diagnostics) == 1
        places = [label.span for d in diagnostics for label in (d.primary, *d.secondary)]
        shown += any(source.position(span.start)[0] == line + 1 for span in places)
    assert found >= 0.75 * total, (found, total)
    assert single >= 0.95 * found, (single, found)
    assert shown >= 0.95 * found, (shown, found)
