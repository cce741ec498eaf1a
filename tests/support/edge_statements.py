"""Statements of random programs at the edges: where nothing changes, where little is left, where counters decide.

Each was let through once: operators that change nothing, merged dims that are cut, steps, tensors without dims, unit
dims under updates in a loop, branches on counters, effects in the middle of expressions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import ClassVar

from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import BF16, F32, F64, I32, I64
from tesserac.types.ty import TensorType
from tests.support.program_gen import NoFit, Program, ProgramWriter, grouped

EFFECTS = """
def said(x: Tensor[...]):
    print("seen", count_nonzero(x == x))
    return x

def held(x: Tensor[...]):
    assert count_nonzero(x == x) >= 0, "never"
    return x

"""
IDENTITIES = (
    "pad({x}, 0, 0, axis={axis})",
    "concat([{x}], axis={axis})",
    "concat([{x}, {x}[:0]], axis=0)",
    "reshape({x}, ({dims},))",
    "permute({x}, ({axes},))",
    "roll({x}, 0, axis={axis})",
    "repeat({x}, 1, axis={axis})",
    "split({x}, 1)[0]",
    "{x}[:]",
    "flip(flip({x}, axis={axis}), axis={axis})",
)
BETWEEN = ("{}", "(-{})", "({} * 2.0 + 1.0)", "relu({})")


def random_program(seed: int, least: int = 5, most: int = 40) -> Program:
    return EdgeWriter(seed, random.Random(seed)).program(least, most)


class EdgeWriter(ProgramWriter):
    """`effects` is how often a name that is read stands in a call that prints or asserts."""

    effects: ClassVar[float] = 0.06
    head: ClassVar[str] = EFFECTS

    def __init__(self, seed: int, rng: random.Random) -> None:
        super().__init__(seed, rng)
        self.counters: list[str] = []

    def _makers(self) -> list[tuple[int, Callable[[], None]]]:
        more: list[tuple[int, Callable[[], None]]] = [
            (2, self._identity),
            (2, self._merged),
            (1, self._with_unit_dim),
            (3, self._cut_along),
            (1, self._summed),
        ]
        if self.depth == 1:
            more += [(1, self._rows)]
        elif self.depth == 2 and self.counters:
            more += [(2, self._if_counter)]
        return [*super()._makers(), *more]

    # ----------------------------------------------------------------------------------------------------- views

    def _identity(self) -> None:
        name = self._any(lambda t: t.rank > 0)
        type_ = self.names[name]
        text = self.rng.choice(IDENTITIES).format(
            x=name,
            axis=self.rng.randrange(type_.rank),
            dims=", ".join(map(str, type_.dims)),
            axes=", ".join(map(str, range(type_.rank))),
        )
        self._bind(text, type_, "identity")

    def _merged(self) -> None:
        """Two neighbours as one dim, of something computed, perhaps cut at once."""
        name = self._any(lambda t: t.rank > 1 and t.dtype in (F32, F64))
        type_ = self.names[name]
        axis = self.rng.randrange(type_.rank - 1)
        dims = (*type_.dims[:axis], type_.dims[axis] * type_.dims[axis + 1], *type_.dims[axis + 2 :])
        text = self.rng.choice(BETWEEN).format(f"reshape({name}, ({', '.join(map(str, dims))},))")
        merged = TensorType(dims, type_.dtype, type_.policy)
        self._refuse_large(merged)
        cut, cut_dims = self._drawn_cut(merged, 0)
        if self.rng.random() < 0.6:
            self._bind(f"{text}[{cut}]", TensorType(cut_dims, type_.dtype, type_.policy), "reshape")
        else:
            self._bind(text, merged, "reshape")

    def _with_unit_dim(self) -> None:
        name = self._any(lambda t: t.rank < 4)
        type_ = self.names[name]
        at = self.rng.randint(0, type_.rank)
        dims = (*type_.dims[:at], ONE, *type_.dims[at:])
        self._bind(f"reshape({name}, ({', '.join(map(str, dims))},))", TensorType(dims, type_.dtype), "reshape")

    def _cut_along(self) -> None:
        """Any of the first two dims, with steps, ends and both."""
        name = self._any(lambda t: t.rank > 0)
        type_ = self.names[name]
        axis = self.rng.randrange(min(type_.rank, 2))
        cut, dims = self._drawn_cut(type_, axis)
        self._bind(f"{name}[{':, ' * axis}{cut}]", TensorType(dims, type_.dtype, type_.policy), "index")

    def _drawn_cut(self, type_: TensorType, axis: int) -> tuple[str, tuple[Dim, ...]]:
        """The text, and the dims that are left."""
        dim = type_.dims[axis]
        least = min(dim.evaluate(sizes) for sizes in self.sizes)
        cuts = {
            "::2": (0, dim.ceil_div(2)),
            ":0": (0, Dim.const(0)),
            "::-1": (0, dim),
            "1:": (1, dim - 1),
            ":-1": (1, dim - 1),
            ":1": (1, ONE),
            "1::2": (1, (dim - 1).ceil_div(2)),
            ":2": (2, Dim.const(2)),
            "1:-1": (2, dim - 2),
            ":3": (3, Dim.const(3)),
        }
        text, (_, left) = self.rng.choice([(text, cut) for text, cut in cuts.items() if cut[0] <= least])
        return text, (*type_.dims[:axis], left, *type_.dims[axis + 1 :])

    def _summed(self) -> None:
        """A number: a tensor without dims."""
        name = self._any(lambda t: t.dtype in (F32, F64, I32, I64))
        type_ = self.names[name]
        fold = self.rng.choice(("max", "min") if type_.rank == 0 else ("sum", "mean"))
        if not type_.dtype.is_float:
            raise NoFit
        self._bind(f"{fold}({name})", TensorType((), type_.dtype), fold)

    # ---------------------------------------------------------------------------------------------- control flow

    def _for(self) -> None:
        self.counters.append(f"turn{self.count + 1}")
        try:
            super()._for()
        finally:
            self.counters.pop()

    def _if_counter(self) -> None:
        """A branch that the turn decides."""
        carried, counter = self._carried(), self.counters[-1]
        test = self.rng.choice((f"{counter} > 0", f"{counter} == 1", f"{counter} % 2 == 0", f"{counter} < 2"))
        self._write(f"if {test}:")
        self._block(carried)
        if self.rng.random() < 0.5:
            self._write("else:")
            self._block(carried)
        self.used.append("if counter")

    def _rows(self) -> None:
        """Rows written one after the other, under a unit dim or none, perhaps at places that only the run knows."""
        name = self._any(lambda t: t.rank > 0 and t.dtype in (F32, F64))
        type_ = self.names[name]
        count, row = type_.dims[0], (*type_.dims[1:], ONE)
        made = TensorType((count, *row), type_.dtype)
        self._refuse_large(made)
        places = [n for n, t in self.names.items() if t.dims == (count,) and t.dtype in (I32, I64)]
        fresh = self._bind(f"zeros({', '.join(map(str, made.dims))}, dtype={type_.dtype})", made, "rows")
        self.count += 1
        turn = f"turn{self.count}"
        self._write(f"for {turn} in range({count}):")
        self.depth += 1
        self._write(f"{fresh}[{turn}] = reshape({name}[{turn}], ({', '.join(map(str, row))},)) * 0.5")
        if places and len(row) == 1:
            self._write(f"{fresh}[{self.rng.choice(places)}[{turn}] % {grouped(count)}, 0] = {name}[{turn}]")
        if self.rng.random() < 0.5:
            self._write(f"if {turn} > 0:")
            self._write(f"    {fresh}[{turn}] = {fresh}[{turn}] + 1.0")
        self.depth -= 1

    # -------------------------------------------------------------------------------------------------- effects

    def _write(self, line: str) -> None:
        """Now and then one of the names that an assignment or a branch reads stands in a call with an effect."""
        read = re.search(r"(?<= = ).*|(?<=^if ).*(?=:)", line)
        if read is not None and self.rng.random() < self.effects:
            line = self._with_effect(line, read)
        super()._write(line)

    def _with_effect(self, line: str, read: re.Match[str]) -> str:
        names = [m for m in re.finditer(r"\b[vp]\d+\b", read[0]) if self._can_be_said(m[0])]
        if not names:
            return line
        chosen = self.rng.choice(names)
        start, end = read.start() + chosen.start(), read.start() + chosen.end()
        self.used.append("effect")
        return f"{line[:start]}{self.rng.choice(('said', 'held'))}({chosen[0]}){line[end:]}"

    def _can_be_said(self, name: str) -> bool:
        type_ = self.names.get(name)
        return type_ is not None and type_.dtype in (F32, F64, I32, I64) and type_.dtype is not BF16
