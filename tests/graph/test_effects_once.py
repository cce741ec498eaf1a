"""An effect happens as often as the program says, in every place an expression can stand: whatever the compiler makes
of the expression around it, whether that is read twice, in part, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

HEADER = """
struct Pair[N]:
    a: Tensor[N, f32]
    b: Tensor[N, f32]
    k: int = 2

    def total(self) -> Tensor[f32]:
        return sum(self.a) + sum(self.b)

def noisy(x: Tensor[N, f32]) -> Tensor[N, f32]:
    print("noisy")
    return x

def one(x: Tensor[N, f32]) -> Tensor[f32]:
    print("noisy")
    return sum(x)

def place(x: Tensor[N, f32]) -> Tensor[i32]:
    print("noisy")
    return cast(1, i32)

def yes(x: Tensor[N, f32]) -> Tensor[bool]:
    print("noisy")
    return sum(x) > 0.0

def pair(x: Tensor[N, f32]) -> Pair[N]:
    print("noisy")
    return Pair(a=x, b=x)

def two(x: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[N, f32]):
    print("noisy")
    return x, x * 2.0

def count(x: Tensor[N, f32]) -> int:
    print("noisy")
    return N

def tell(x: Tensor[N, f32]):
    print("noisy")

def with_default(x: Tensor[N, f32], *, scale: f32 = 1.0) -> Tensor[N, f32]:
    return x * scale + x / scale

def branching(x: Tensor[N, f32]) -> Tensor[f32]:
    return 1.0 if yes(x) else 2.0

NOISE = noisy(ones(4))
"""

ONCE = [
    # what reads a value several times
    "a, b = split(noisy(x), 2)",
    "[a, b] = split(noisy(x), 2)",
    "y = 0.0 < noisy(x)[0] < 2.0",
    "y = 0.0 < one(x) <= 9.0 != 3.0",
    "y = all((0.0 < noisy(x)) & (noisy_free(x) < 2.0))",
    "a = b = noisy(x)",
    "(a, b), c = two(x), x",
    "a, x[0] = two(x)[0], 1.0",
    "y = einsum('i,i->', noisy(x), x)",
    "y = noisy(x) ** 3",
    "y = pair(x) + pair_free(x)",
    "y = pair_free(x) * one(x)",
    "y = pair_free(x) / one(x)",
    "y = -pair(x)",
    "y = pair(x).total()",
    "y = pair(x).a + pair_free(x).b",
    "y = noisy(x).sum()",
    "y = noisy(x).at[1].set(5.0)",
    "y = x.at[place(x)].add(2.0)",
    "y = x.at[1:3].mul(one(x))",
    "x[place(x)] += 2.0",
    "x[place(x)] = x[0] / 2.0",
    "x[1] /= one(x)",
    "x[1:3] *= one(x)",
    "x += noisy(x)",
    "x /= noisy(x)",
    "x @= outer(noisy(x), x)",
    "p = pair_free(x); p.a = noisy(x)",
    "p = pair_free(x); p.a += noisy(x)",
    "p = pair_free(x); p.a[place(x)] -= 1.0",
    "t = [x, x]; t[0] = noisy(x)",
    "t = {'a': x}; t['a'] += noisy(x)",
    "y = noisy(x)[::-1][1:3]",
    "y = noisy(x)[place_free(x)]",
    "y = with_default(x, scale=one(x))",
    "y = (lambda v: v * v + v)(noisy(x))",
    "y = [v * v for v in split(noisy(x), 2)]",
    "y = {k: v + v for k, v in [('a', noisy(x)), ('b', x)]}",
    "y = op.pipeline([x, noisy, lambda v: v + v])",
    "y = softmax(noisy(x))",
    "y = var(noisy(x))",
    "y = clamp(noisy(x), 0.0, 1.0)",
    "y = checkpoint(noisy)(x)",
    "y = grad(lambda v: sum(v * v))(noisy(x))",
    "y = vmap(lambda v: v * v)(noisy(x))",
    "y, back = vjp(lambda v: v * v, noisy(x))",
    "A = op.diag(noisy(x)); y = (A + A) @ x",
    "A = op.diag(x); y = A @ noisy(x)",
    "y = op.dense(outer(noisy(x), x)) == op.eye(4)",
    "print(f'{one(x)=} {one_free(x)!r}')",
    "two(x) if False else tell(x)",
    "assert 0.0 < one(x) < 9.0",
    "assert one(x) > 0.0, f'{sum(x)}'",
    "assert one(x) > 0.0 and sum(x) < 9.0",
    "for i in range(place(x)): x = x * 2.0",
    "for v in split(noisy(x), 2): print(v)",
    "y = 1.0 if yes(x) else 2.0",
    "y = branching(x)",
    "y = one(x) if sum(x) > 0.0 else two(x)[0][0]",
    "y = one(x) if sum(x) < 0.0 else two(x)[0][0]",
    "y = not yes(x)",
    "y = sum(x) > 0.0 and yes(x)",
    "y = sum(x) < 0.0 or yes(x)",
    "y = NOISE",
    "y = where(yes(x), x, x * 2.0)",
    # what reads no value, or only a part of it
    "tell(x)",
    "y = tell(x)",
    "n = count(x)",
    "y = zeros(count(x))",
    "y = x[count(x) - 1]",
    "y = x[:count(x)]",
    "for i in range(count(x)): x = x * 2.0",
    "y = noisy(x).shape[0]",
    "y = noisy(x).dtype",
    "y = noisy(x).rank",
    "y = noisy(x) is None",
    "y = (noisy(x), x)[1]",
    "y = [noisy(x), x][1]",
    "y = [noisy(v) for v in [x]]",
    "y = [v for v in [x] if count(v) == 4]",
    "y = [v for v in [x] if count(v) == 5]",
    "y = {'a': noisy(x), 'b': x}['b']",
    "y = two(x)[1]",
    "y = two(x)[0]",
    "y = pair(x).k",
    "y = Pair(a=noisy(x), b=x).b",
    "y = zeros_like(noisy(x))",
    "y = 2 in [count(x), 2]",
    "y = count(x) < 5 < 6",
    "if count(x) == 4: x = x * 2.0",
    "if yes(x): x = x * 2.0",
    "unused = noisy(x)",
    "noisy(x)",
    "_ = len(two(x))",
]

NEVER = [
    "y = one(x) if False else sum(x)",
    "y = one(x) if sum(x) < 0.0 else sum(x)",
    "y = sum(x) < 0.0 and yes(x)",
    "y = sum(x) > 0.0 or yes(x)",
    "y = True or yes(x)",
    "assert sum(x) > 0.0, f'{one(x)}'",
    "if False: x = noisy(x)",
    "f = lambda v: noisy(v)",
]

SEVERAL = [
    ("while yes(x) and sum(x) < 9.0: x = x * 2.0", 3),
    ("while yes(x):\n        x = x - 2.0", 2),
    ("for i in range(3): x = noisy(x)", 3),
    ("while yes(x):\n        break", 1),
    ("y = [noisy(v) for v in split(x, 2)][0]", 2),
    ("y = scan(lambda c, v: (c + one(c), v), x, x)", 4),
    ("y = noisy(x) + noisy(x)", 2),
    ("y = NOISE + NOISE", 2),
    ("for v in [noisy(x), noisy(x)]: x = x + v", 2),
]


def _program(statements: list[str]) -> str:
    quiet = "".join(
        HEADER[HEADER.index(f"def {name}(") :].split("\n\n")[0].replace(f"def {name}(", f"def {name}_free(")
        .replace('    print("noisy")\n', "") + "\n\n"
        for name in ("noisy", "one", "place", "pair")
    )  # fmt: skip
    functions = [f"def f{number}(x: Tensor[4, f32]):\n    {text}\n" for number, text in enumerate(statements)]
    return "\n".join([HEADER, quiet, *functions])


CASES = [(text, 1) for text in ONCE] + [(text, 0) for text in NEVER] + SEVERAL


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("text", "times"), CASES, ids=[text for text, _ in CASES])
def test_an_effect_happens_as_often_as_it_is_written(text: str, times: int, capfd: pytest.CaptureFixture[str]) -> None:
    module = tessera.compile(_program([text]))
    module.f0(np.ones(4, "f4"))
    assert capfd.readouterr().out.splitlines().count("noisy") == times
