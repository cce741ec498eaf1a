"""Random programs of scalars and control flow that mean the same in Python: ints, floats and flags that loops and
branches change, `break`, `continue` and `return` anywhere, ranges of the run.

Every loop is bounded, ints stay small (they are taken modulo a number), floats are combined by operations that both
round alike.
"""

from __future__ import annotations

import random

INTS, FLOATS, FLAGS = ("a", "b", "c"), ("s", "t"), ("p", "q")
HEAD = "def f(n: i64, m: i64, x: Tensor[N, f64]) -> (i64, i64, i64, f64, f64, bool, bool):\n"
RETURN = "return a, b, c, s, t, p, q"


class ScalarPrograms:
    """One program for each seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._loops = 0

    def program(self) -> str:
        lines = ["    a, b, c = 0, 1, 2", "    s, t = 0.0, 0.5", "    p, q = False, True"]
        lines += self._block(1, 4, in_loop=False)
        return HEAD + "\n".join([*lines, f"    {RETURN}", ""])

    def _block(self, depth: int, count: int, *, in_loop: bool) -> list[str]:
        made: list[str] = []
        for _ in range(self._random.randint(1, count)):
            made += self._statement(depth, in_loop)
        return made

    def _statement(self, depth: int, in_loop: bool) -> list[str]:
        indent = "    " * depth
        kinds = ["int", "int", "float", "flag", "if"] + ["for", "while"] * (depth < 4)
        kinds += ["break", "continue", "return"] * in_loop
        kind = self._random.choice(kinds)
        if kind == "int":
            return [f"{indent}{self._random.choice(INTS)} = ({self._int(2)}) % 17"]
        if kind == "float":
            return [f"{indent}{self._random.choice(FLOATS)} = {self._float(2)}"]
        if kind == "flag":
            return [f"{indent}{self._random.choice(FLAGS)} = {self._condition()}"]
        if kind in ("break", "continue", "return"):
            leave = RETURN if kind == "return" else kind
            return [f"{indent}if {self._condition()}:", f"{indent}    {leave}"]
        return self._if(depth, in_loop) if kind == "if" else self._loop(kind, depth)

    def _if(self, depth: int, in_loop: bool) -> list[str]:
        indent = "    " * depth
        made = [f"{indent}if {self._condition()}:", *self._block(depth + 1, 2, in_loop=in_loop)]
        if self._random.random() < 0.5:
            made += [f"{indent}else:", *self._block(depth + 1, 2, in_loop=in_loop)]
        return made

    def _loop(self, kind: str, depth: int) -> list[str]:
        indent, self._loops = "    " * depth, self._loops + 1
        name = f"i{self._loops}"
        if kind == "while":
            body = [f"{indent}    {name} += 1", *self._block(depth + 1, 3, in_loop=True)]
            return [f"{indent}{name} = 0", f"{indent}while {name} < 4 and ({self._condition()}):", *body]
        bounds = self._random.choice(("3", "n", "0, m, 2", "m, 0, -1", "b % 3, 5", "N", "a % 4", "5, c % 3, -2"))
        use = f"{indent}    {self._random.choice(INTS)} = ({self._int(1)} + {name}) % 17"
        return [f"{indent}for {name} in range({bounds}):", use, *self._block(depth + 1, 3, in_loop=True)]

    def _int(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.3:
            return self._random.choice((*INTS, "n", "m", "3", "7"))
        left, right = self._int(depth - 1), self._int(depth - 1)
        form = self._random.choice(
            ("{} + {}", "{} - {}", "{} * {}", "max({}, {})", "min({}, {})", "({}) // (1 + abs({}))")
        )
        return "(" + form.format(left, right) + ")"

    def _float(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.3:
            return self._random.choice((*FLOATS, "0.25", "x[a % N]", "x[b % N]", "cast(c, f64)"))
        form = self._random.choice(("0.5 * ({} + {})", "({} - {}) * 0.25", "max({}, {})", "min({}, {})"))
        return form.format(self._float(depth - 1), self._float(depth - 1))

    def _condition(self) -> str:
        return self._random.choice((
            f"{self._int(1)} < {self._int(1)}", f"{self._int(1)} % 3 == 1", f"{self._float(1)} > {self._float(1)}",
            "p", "not q", "p and q", f"q or {self._int(1)} > 4",
        ))  # fmt: skip
