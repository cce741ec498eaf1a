"""Random loops that are maps, sums or neither: what reads and writes here and there, in nests, branches and functions
called, on numbers of several types. `loop_program(7)` is always the same one."""

from __future__ import annotations

import random
from dataclasses import dataclass

RANGES = ("range({n})", "range(1, {n})", "range(2, {n} - 2)", "range({n} - 1)", "range({n} - 1, 0, -1)",
          "range(0, {n} - 1, 2)", "range(3)", "range({n} - 1, -1, -3)")  # fmt: skip
WITHIN = ("range({c})", "range({c}, {n})", "range({c} + 1, {n})", "range({c}, -1, -1)")
ARRAYS = {"a": 2, "b": 2, "x": 1, "y": 1, "s": 0, "t": 0}
STATIC_SIZES = (3, 5, 18)


@dataclass(frozen=True)
class LoopProgram:
    """`f` changes a, b, x and y and gives them with two sums; `g` gives the sum of all; `h` its gradient, `v` is `f` of
    two of each. N is a symbol, or the number that `size` says."""

    seed: int
    text: str
    dtype: str
    size: int | None

    @property
    def is_smooth(self) -> bool:
        return self.dtype in ("f64", "f32")


def loop_program(seed: int) -> LoopProgram:
    draw = random.Random(seed)
    dtype = draw.choice(["f64", "f64", "f64", "f32", "i64", "i32", "c128"])
    size = draw.choice([None, None, *STATIC_SIZES])
    return LoopProgram(seed, _Writer(draw, dtype, str(size or "N")).text(), dtype, size)


class _Writer:
    def __init__(self, draw: random.Random, dtype: str, size: str) -> None:
        self.draw, self.dtype, self.size = draw, dtype, size

    def text(self) -> str:
        n, t = self.size, self.dtype
        tensors = f"a: Tensor[{n}, {n}, {t}], b: Tensor[{n}, {n}, {t}], x: Tensor[{n}, {t}], y: Tensor[{n}, {t}]"
        many = tensors.replace("Tensor[", "Tensor[2, ")
        start = "cast(0, {t})" if t[0] == "i" else "x[0] * 0.0" if t[0] == "c" else "cast(0.0, {t})"
        inner = self.size if self.size == "N" else "N"
        helper = f"def part(x: Tensor[{inner}, {t}]) -> Tensor[{t}]:\n    s = sum(x[:0])\n    s = cast(s, {t})\n"
        helper += f"    for i in range({inner}):\n        s += {self.scale()}x[i]\n    return s\n\n"
        lines = [f"s = {start.format(t=t)}", "t = s"] if t[0] != "c" else ["s = part(x[:0])", "t = s"]
        lines += self.nest()
        body = "".join(f"    {line}\n" for line in lines)
        sums = "    a, b, x, y, s, t = f(a, b, x, y)\n    return sum(a * a) + sum(b) + sum(x * y) + s - t\n"
        text = f"{helper}def f({tensors}):\n{body}    return a, b, x, y, s, t\n\n"
        text += f"def v({many}):\n    return vmap(f)(a, b, x, y)\n\n"
        if t in ("f64", "f32"):
            text += f"def g({tensors}) -> Tensor[{t}]:\n{sums}\n"
            text += f"def h({tensors}):\n    return grad(g, argnums=(0, 1, 2, 3))(a, b, x, y)\n"
        return text

    def scale(self) -> str:
        return "3 * " if self.dtype[0] == "i" else "0.01 * "

    def range(self, counters: list[str]) -> str:
        kinds = RANGES if not counters or self.draw.random() < 0.6 else WITHIN
        kind = self.draw.choice([k for k in kinds if k != "range(3)" or self.size != "N"])
        return kind.format(n=self.size, c=counters[-1] if counters else "")

    def nest(self) -> list[str]:
        lines = list[str]()
        for _ in range(self.draw.randrange(1, 3)):
            lines += self.loop([])
        return lines

    def loop(self, counters: list[str]) -> list[str]:
        counter = "ijk"[len(counters)]
        here = [*counters, counter]
        lines = [f"for {counter} in {self.range(counters)}:"]
        body = self.several(here, 1, 3)
        if len(here) < 3 and self.draw.random() < (0.75 if len(here) == 1 else 0.35):
            body += self.loop(here)
            if self.draw.random() < 0.3:
                body += self.several(here, 1, 2)
        return lines + ["    " + line for line in body]

    def several(self, counters: list[str], low: int, high: int) -> list[str]:
        return [line for _ in range(self.draw.randrange(low, high)) for line in self.statement(counters)]

    def statement(self, counters: list[str]) -> list[str]:
        kind = self.draw.random()
        if kind < 0.15:
            yes = self.several(counters, 1, 2)
            no = self.several(counters, 1, 2) if self.draw.random() < 0.4 else []
            lines = [f"if {self.condition(counters)}:", *("    " + line for line in yes)]
            return lines + (["else:", *("    " + line for line in no)] if no else [])
        if kind < 0.3 and self.dtype[0] != "c":
            where = self.draw.choice(["s", "t", "x[{c}]", "a[{c}, {d}]"])
            where = where.format(c=self.draw.choice(counters), d=self.draw.choice(counters))
            function = self.draw.choice(["maximum", "minimum"])
            return [f"{where} = {function}({where}, {self.value(counters)})"]
        if kind < 0.45:
            return [self.row(counters)]
        name = self.draw.choice(list(ARRAYS))
        where = self.place(name, counters)
        sign = self.draw.choice(["=", "+=", "+=", "-="])
        return [f"{where} {sign} {self.scale()}{self.product(counters)}"]

    def row(self, counters: list[str]) -> str:
        """A row or column, or a part of one."""
        c, d = self.draw.choice(counters), self.draw.choice(counters)
        part = self.draw.choice([":", ":", f":{d}", f"{d}:", "1:"])
        name, other = self.draw.choice("ab"), self.draw.choice("ab")
        target = self.draw.choice([f"{name}[{c}, {part}]", f"{name}[{part}, {c}]"])
        source = self.draw.choice([f"x[{part}]", f"{other}[{d}, {part}]", f"{other}[{part}, {d}]"])
        return f"{target} {self.draw.choice(['+=', '-='])} {self.scale()}{self.value(counters)} * {source}"

    def condition(self, counters: list[str]) -> str:
        c, d = self.draw.choice(counters), self.draw.choice(counters)
        bound = "4" if self.dtype[0] == "i" else "0.8"
        values = [] if self.dtype[0] == "c" else [f"{self.value(counters)} > {bound}"]
        return self.draw.choice([*values, *values, f"{c} < 2", f"{c} == {d}", f"{c} % 2 == 0"])

    def product(self, counters: list[str]) -> str:
        return " * ".join(self.value(counters) for _ in range(self.draw.randrange(1, 3)))

    def place(self, name: str, counters: list[str]) -> str:
        return f"{name}[{', '.join(self.draw.choice(counters) for _ in range(ARRAYS[name]))}]" if ARRAYS[name] else name

    def value(self, counters: list[str]) -> str:
        c = self.draw.choice(counters)
        whole = self.dtype[0] == "i"
        smooth = [f"exp({self.place('y', counters)} * 0.1)"]
        if self.dtype[0] == "f":
            x = self.place("x", counters)
            smooth += [f"sin({x})", f"sqrt(abs({x}) + 0.5)", f"({c} / 7.0)"]
        sums = [f"sum(x[:{c}])", f"sum(a[{c}, {c}:])", "part(x)", f"part(b[{c}])", f"part(y[{c}:])"]
        shifted = [f"x[min({c} + 1, {self.size} - 1)]", f"y[max({c} - 1, 0)]"]
        plain = [self.place(name, counters) for name in ("a", "b", "x", "y", "s", "a", "b", "x", "y")]
        if self.dtype == "i32":
            sums = sums[2:]
        return self.draw.choice([*plain, *shifted, *([] if whole else smooth), self.draw.choice(sums)])
