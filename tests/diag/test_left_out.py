"""What Python has and Tessera has not, and calls that lack what only compiling asks for: the first fix suffices."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Severity
from tesserac.diag.render import apply_edits
from tesserac.driver.session import Session
from tests.diag.test_growing_lists import offered

X = "x: Tensor[N, f32]"
MISTAKES = {
    "walrus": (X, "if (n := sum(x)) > 1.0:\n    return n\nreturn n * 2.0", "n = sum(x)\n    if n > 1.0:"),
    "walrus of a loop": (X, "while (m := max(x)) > 1.0:\n    x = x / m\nreturn x", "x = x / m\n        m = max(x)\n"),
    "try": (X, "try:\n    y = exp(x)\nexcept ValueError as e:\n    y = x\nreturn y", "    y = exp(x)\n    return y"),
    "finally": (X, "try:\n    y = exp(x)\nfinally:\n    print(1)\nreturn y", "    y = exp(x)\n    print(1)\n"),
    "raise": (f"{X}, n: int", 'if n < 0:\n    raise ValueError("n")\nreturn x', '    assert not (n < 0), "n"\n'),
    "raise, else": (
        f"{X}, mode: str",
        'if mode == "a":\n    return x\nelse:\n    raise ValueError(f"no {mode}")',
        'assert False, f"no {mode}"\n',
    ),
    "match": (
        f"{X}, mode: str",
        'match mode:\n    case "a" | "b":\n        return x\n    case _:\n        return -x',
        '    if mode == "a" or mode == "b":\n        return x\n    else:\n        return -x',
    ),
    "del": (X, "y = exp(x)\ndel x\nreturn y", "y = exp(x)\n    return y"),
    "as": (X, "with numerics(fast) as a:\n    return exp(x)", "with numerics(fast):"),
    "set": (X, "s = {1, 2}\nreturn x * s[0]", "s = [1, 2]"),
    "else if": (f"{X}, n: int", "if n == 1:\n    x = -x\nelse if n == 2:\n    x = x + 1\nreturn x", "elif n == 2:"),
    "bracket": (X, "y = exp((x + 1.0)\nreturn y", "exp((x + 1.0))\n"),
    "f-string": (X, 'text = f"{sum(x)}"\nprint(text)\nreturn x', '    print(f"{sum(x)}")\n'),
    "separator": (X, 'print("a", x, sep=": ")\nreturn x', 'print("a", x)\n'),
    "dict": (X, 'd = dict(a=x)\nreturn d["a"]', '{"a": x}'),
    "places of a mask": (X, "return nonzero(x)", "nonzero(x, size=x.size)"),
    "places, as a method": (X, "return x.nonzero()", "x.nonzero(size=x.size)"),
    "places by where": (X, "return where(x > 0)", "nonzero(x > 0, size=(x > 0).size)"),
    "how often": (X, "return x.repeat(2, 1)", "tile(x, (2, 1))"),
    "as another": (f"{X}, y: Tensor[B, N, f32]", "return x.expand_as(y)", "expand(x, y.shape)"),
    "no scalar": (X, "return grad(lambda x: x**2)(x)", "grad(lambda x: sum(x**2))(x)"),
    "float added in place": ("x: Tensor[N, i32]", "x += 0.5\nreturn x", "x = cast(x, f32) + 0.5"),
    "behind the end": (X, "return x[N:0:-1]", "x[:0:-1]"),
    "two names of three": ("x: Tensor[A, B, C, f32]", "a, b = x.shape\nreturn a", "a, b, _ = x.shape"),
    "a mask of lengths": ("n: Tensor[B, i64], x: Tensor[S]", "return arange(S) < n", "arange(S)[None] < n[:, None]"),
    "addmm": (
        "b: Tensor[N, f32], x: Tensor[M, K, f32], w: Tensor[K, N, f32]",
        "return torch.addmm(b, x, w)",
        "return b + x @ w",
    ),
    "labels of a sequence": (
        "x: Tensor[B, T, V, f32], y: Tensor[B, T, i64]",
        "return cross_entropy(x.reshape(-1, V), y)",
        "cross_entropy(x.reshape(-1, V), reshape(y, -1))",
    ),
    "axes in a new order": ("x: Tensor[B, S, H, f32]", "return x.transpose(0, 2, 1)", "x.permute(0, 2, 1)"),
    "a dtype of NumPy": ("n: int", "return zeros(n, dtype=int)", "zeros(n, dtype=i64)"),
    "floats of NumPy": ("x: Tensor[N, i32]", "return x.astype(float)", "x.astype(f64)"),
    "in place, as a value": ("x: Tensor[N, N, f32]", "y = x.fill_diagonal_(0.0)\nreturn y", "x.fill_diagonal(0.0)"),
    "scatter": (
        "x: Tensor[B, V, f32], i: Tensor[B, K, i64], v: Tensor[B, K, f32]",
        "x.scatter_(1, i, v)\nreturn x",
        "x = x.at[arange(i.shape[0])[:, None], i].set(v)",
    ),
    "a distribution": ("x: Tensor[N, f64]", "return scipy.stats.norm.cdf(x, loc=1.0)", "cdf(Normal(loc=1.0), x)"),
    "one letter": (X, "h = exp(x)\nreturn hh * h", "return h * h"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_fix_says_it_as_it_is_said_here(mistake: str) -> None:
    parameters, body, written = MISTAKES[mistake]
    program = "".join(f"    {line}\n" for line in body.split("\n"))
    text = f"def f({parameters}):\n{program}"
    (said,) = [one for one in offered(text) if one.severity is Severity.ERROR]
    assert said.fixes, said.title
    mended = apply_edits(text, said.fixes[0].edits)
    assert written in mended, mended
    assert [d.title for d in Session().check(SourceFile("own.tess", mended)).diagnostics] == []


LINEAR = "def lin(x: Tensor[B, I, f32], w: Tensor[I, O, f32]):\n    return x @ w\n\n"


@pytest.mark.parametrize("call", ["lin(w, x)", "lin(x)"])
def test_arguments_that_are_there_are_put_in_their_places(call: str) -> None:
    text = f"{LINEAR}def f(x: Tensor[B, I, f32], w: Tensor[I, O, f32]):\n    return {call}\n"
    (said,) = offered(text)
    assert "return lin(x, w)\n" in apply_edits(text, said.fixes[0].edits)


@pytest.mark.parametrize(
    "body",
    [
        "while (m := max(x)) > 1.0:\n        continue",
        "match sum(x):\n        case Point(a, b):\n            return a",
        "x = x + 1.0; raise ValueError(x)",
    ],
)
def test_what_cannot_be_said_otherwise_has_no_fix(body: str) -> None:
    said = offered(f"def f(x: Tensor[N, f32]):\n    {body}\n    return x\n")
    assert said[0].code == "E0107" and not said[0].fixes


def test_a_module_of_python_has_nothing_that_the_library_has_not() -> None:
    (said,) = offered("def f(x: Tensor[N, f64]):\n    return scipy.integrate.qmc_quad(exp, 0.0, 1.0)\n")
    assert said.notes == ("the library has no `qmc_quad`; what it has needs no module before it",) and not said.fixes
