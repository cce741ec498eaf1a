"""Calls that show what they do: each operator with its shapes, and who made the first inf or NaN."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac import cli
from tesserac.ops.registry import OPERATORS, Operator

PROGRAM = """\
struct Layer[D]:
    w: Tensor[D, D, f32] = eye(D) + 1.0

    def apply(self, x: Tensor[N, D, f32]) -> Tensor[N, D, f32]:
        return relu(x @ self.w)

def main(n: int = 2) -> Tensor[4, f32]:
    x = ones(4, 3) * 2.0
    layer = Layer[3](seed=0)
    for i in range(n):
        x = layer(x)
    print("run", n)
    return sum(softmax(x), axis=1)
"""
SHOWN = """\
main
  place                operator                 result                      bytes  operands
  main.tess:8          ones                     f32[4, 3]                      48
  main.tess:8          mul                      f32[4, 3]                      48  f32[4, 3], f32[]
  main.tess:2          eye                      f32[3, 3]                      36
  main.tess:2          add                      f32[3, 3]                      36  f32[3, 3], f32[]
  main.tess:5          matmul                   f32[4, 3]                      48  f32[4, 3], f32[3, 3]
  main.tess:5          relu: less_equal         bool[4, 3]                     12  f32[4, 3], f32[]
  main.tess:5          relu: where              f32[4, 3]                      48  bool[4, 3], f32[], f32[4, 3]
  main.tess:5          matmul                   f32[4, 3]                      48  f32[4, 3], f32[3, 3]
  main.tess:5          relu: less_equal         bool[4, 3]                     12  f32[4, 3], f32[]
  main.tess:5          relu: where              f32[4, 3]                      48  bool[4, 3], f32[], f32[4, 3]
  main.tess:13         softmax: wide            f32[4, 3]                      48  f32[4, 3]
  main.tess:13         softmax: max             f32[4, 1]                      16  f32[4, 3]
  main.tess:13         softmax: equal           bool[4, 1]                      4  f32[4, 1], f32[]
  main.tess:13         softmax: exp_int         f32[4, 1]                      16  f32[4, 1]
  main.tess:13         softmax: where           f32[4, 1]                      16  bool[4, 1], f32[], f32[4, 1]
  main.tess:13         softmax: exp_term        f32[4, 3]                      48  f32[4, 3], f32[4, 1]
  main.tess:13         softmax: less            bool[4, 1]                      4  f32[4, 1], f32[]
  main.tess:13         softmax: sum             f32[4, 1]                      16  f32[4, 3]
  main.tess:13         softmax: where           f32[4, 1]                      16  bool[4, 1], f32[4, 1], f32[]
  main.tess:13         softmax: div             f32[4, 3]                      48  f32[4, 3], f32[4, 1]
  main.tess:13         softmax: cast            f32[4, 3]                      48  f32[4, 3]
  main.tess:13         sum                      f32[4]                         16  f32[4, 3]
"""


@pytest.fixture(autouse=True)
def nothing_shown_after() -> Iterator[None]:
    yield
    tessera.trace()


def run(tmp_path: Path, text: str, *words: str) -> int:
    (tmp_path / "main.tess").write_text(text)
    return cli.main(cli.runner, "tessera", ["run", *words, str(tmp_path / "main.tess")])


@pytest.mark.one_in(3)
def test_the_table_of_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, PROGRAM, "--trace-shapes") == 0
    captured = capsys.readouterr()
    assert captured.err == SHOWN
    assert captured.out.startswith("run 2\nTensor[4, f32]\n")  # said once, by the compiled call


@pytest.mark.one_in(2)
def test_the_environment_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessera import tracing

    monkeypatch.setattr(tracing, "_chosen", [])
    monkeypatch.setenv("TESSERA_TRACE", "shapes")
    assert run(tmp_path, PROGRAM) == 0
    assert capsys.readouterr().err == SHOWN
    monkeypatch.setenv("TESSERA_TRACE", "shape")
    assert run(tmp_path, PROGRAM) == 2
    assert "there is no trace of `shape`" in capsys.readouterr().err


def test_from_python_on_and_off(capsys: pytest.CaptureFixture[str]) -> None:
    m = tessera.compile("def f(x: Tensor[N, bf16 @accum(f32)]) -> Tensor[bf16 @accum(f32)]: return sum(x * 2.0)")
    import ml_dtypes

    x = np.ones(5, ml_dtypes.bfloat16)
    assert m.f(x) == 10 and capsys.readouterr().err == ""
    tessera.trace("shapes")
    assert m.f(x) == 10
    assert [line.split()[1:4] for line in capsys.readouterr().err.splitlines()[2:]] == [
        ["mul", "bf16[5]", "10"],
        ["sum", "bf16[]", "2"],
    ]
    tessera.trace()
    assert m.f(x) == 10 and capsys.readouterr().err == ""
    with pytest.raises(tessera.TesseraError, match="there is no trace of `bytes`"):
        tessera.trace("bytes")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Tensor[N, f32]): return normal(3) + uniform(3) * sum(x)",  # the stream of the call
        "def f(x: Tensor[N, f32]): return real(ifft(fft(x)))",
        "def f(x: Tensor[N, f32]): return sort(x)[::-1]",
        "def f(x: Tensor[N, f32]):\n    while sum(x) < 50.0:\n        x = x * 2.0\n    return x",
        "def f(x: Tensor[N, f32]):\n    for i in range(0, N, 2):\n        x[i] += float(i)\n    return x",
        "def f(x: Tensor[N, f32]):\n    y = x\n    if sum(x) > 0.0:\n        y = -x\n    return (y, [x * 2.0])",
        "def f(x: Tensor[N, f32]):\n    g = lambda v: v + sum(x)\n    return g(x)",
        "def f(x: Tensor[4, f32]): return x.reshape((2, 2)) @ x.reshape((2, 2)).T",
        "def f(x: Tensor[N, f32]): return cast(cast(x, i8 @scale(axis=0)), f32)",
    ],
)
def test_values_are_those_of_the_call(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from tesserac.embed import tracing as shown

    x = np.array([1, 2, 3, 4], "f4")
    tessera.trace("shapes")
    seen: list[object] = []
    original = shown.ShapeTable.__call__
    shown.ShapeTable.__call__ = lambda self, step: (seen.append(step), original(self, step))[1]  # type: ignore[method-assign]
    try:
        result = tessera.compile(text).f(x)
    finally:
        shown.ShapeTable.__call__ = original  # type: ignore[method-assign]
    outer = result if isinstance(result, tuple) else (result,)
    leaves = [leaf for part in outer for leaf in (part if isinstance(part, tuple) else (part,))]
    computed = [array for step in seen for _, array in step.results]  # type: ignore[attr-defined]
    for leaf in leaves:
        assert any(a.shape == leaf.shape and np.array_equal(a, leaf) for a in [x, *computed])
    assert "Traceback" not in capsys.readouterr().err


NUMERICS = """\
def weights(s: Tensor[N, f32]) -> Tensor[N, f32]:
    e = exp(s)
    return e / sum(e)

def main() -> Tensor[3, f32]:
    mask = where(arange(3) < 2, zeros(3), -INF)
    s = (ones(3) + mask) * 100.0
    return weights(s) * softmax(mask)
"""


def test_the_first_inf_is_named_with_the_ranges_of_its_operands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, NUMERICS, "--watch-numerics") == 0
    assert capsys.readouterr().err == (
        "main.tess:2: `exp` made inf in 2 of 3 elements\n"
        "  operand 1: f32[3] in [-inf, 100]\n"
        "  f32 holds up to 3.40282e+38\n"
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("log(x)", "operand 1 is 0 there: a pole of `log`, whatever the dtype"),
        ("log1p(x - 1.0)", "operand 1 is -1 there: a pole of `log1p`, whatever the dtype"),
        ("rsqrt(x)", "operand 1 is 0 there: a pole of `rsqrt`, whatever the dtype"),
        ("x ** -2.0", "operand 1 is 0 there: a pole of `pow`, whatever the dtype"),
        ("1.0 / x", "operand 2 is 0 there: a division by zero"),
        ("x / 1e-45", "f32 holds up to 3.40282e+38"),
        ("1e38 / (x * 1e-30)", "f32 holds up to 3.40282e+38"),
    ],
)
def test_an_inf_at_a_pole_is_not_a_number_too_large(
    code: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"def main():\n    x = cast(arange(4), f32)\n    return {code}\n"
    assert run(tmp_path, text, "--watch-numerics") == 0
    lines = capsys.readouterr().err.splitlines()
    assert "made inf" in lines[0] and lines[-1].strip() == said


@pytest.mark.parametrize("cls", [cls for cls in OPERATORS.values() if cls.pole is not None], ids=lambda cls: cls.name)
def test_a_pole_is_one_in_every_dtype(cls: type[Operator]) -> None:
    position, pole = cls.pole or (0, 0.0)
    operands = [np.full(1, pole if place == position else 1.0 - 2 * place) for place in range(len(cls.cases()[0][1]))]
    with np.errstate(all="ignore"):
        assert np.isinf(cls.cases()[0][0].reference(*operands)).all()


def test_what_the_library_makes_counts_if_the_program_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    tessera.trace("numerics")
    m = tessera.compile("def f(x: Tensor[N, f32]) -> Tensor[N, f32]: return softmax(x)")
    m.f(np.array([1, 2, -np.inf], "f4"))
    assert capsys.readouterr().err == ""
    m.f(np.full(3, -np.inf, "f4"))
    assert capsys.readouterr().err.startswith("<text>:1: `softmax: div` made NaN in 3 of 3 elements\n")


def test_a_call_that_fails_shows_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    m = tessera.compile("def f(x: Tensor[N, f32]):\n    y = x * 2.0\n    assert sum(y) > 0.0\n    return exp(y)")
    tessera.trace("shapes")
    with pytest.raises(tessera.TesseraError, match="E0933"):
        m.f(np.array([-1], "f4"))
    shown = capsys.readouterr().err
    assert "mul" in shown and "exp" not in shown


def test_a_bundle_has_no_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.tess").write_text("def main() -> Tensor[2, f32]: return ones(2)")
    assert cli.main(cli.compiler, "tesserac", ["build", str(tmp_path / "main.tess")]) == 0
    capsys.readouterr()
    assert cli.main(cli.runner, "tessera", ["run", "--trace-shapes", str(tmp_path / "main.tessb")]) == 0
    assert "a bundle shows no operators" in capsys.readouterr().err


ORDERED = """\
def main():
    x = ones(2)
    print("first")
    for i in range(2):
        x = x * 2.0
        print("turn", i)
    y = x + 1.0
    assert sum(y) < 0.0, "never"
    return y
"""


def test_rows_stand_where_the_program_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stream for both, as on a terminal; what was shown before a failure is shown."""
    monkeypatch.setattr("sys.stderr", sys.stdout)
    assert run(tmp_path, ORDERED, "--trace-shapes") != 0
    lines = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    places = [["main.tess:2", "ones"], ["first"], ["main.tess:5", "mul"], ["turn", "0"], ["main.tess:5", "mul"]]
    places += [["turn", "1"], ["main.tess:7", "add"], ["main.tess:8", "sum"], ["main.tess:8", "less"]]
    assert lines[2 : 2 + len(places)] == places


TRAINED = """\
def loss(w: Tensor[N, f32], x: Tensor[N, f32]) -> Tensor[f32]: return sum(log(x * w))

def main():
    w = ones(3)
    for i in range(2):
        print("step", i)
        w = w - grad(loss)(w, arange(3, dtype=f32))
    return w
"""


def test_derivatives_are_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", sys.stdout)
    assert run(tmp_path, TRAINED, "--watch-numerics") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "step 0" and lines[1].startswith("main.tess:1: `div` made inf in 1 of 3 elements")
