"""Statements of random programs that only differentiable ones have: transforms inside, structs, rules, linear algebra.

Each draws an operand from the names in scope, writes a statement, and says what type it gives; values stay of moderate
size. The functions and the struct that they use stand in `FUNCTIONS`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tesserac.types.dtype import F64
from tesserac.types.ty import TensorType
from tests.support.edge_statements import EdgeWriter
from tests.support.program_gen import NoFit, type_text

FUNCTIONS = """
def bent(x: Tensor[...]):
    return x / (1.0 + x * x)

def cubed(x: Tensor[...]) -> Tensor[..., x.dtype]:
    return x * x * x

@jvp_of(cubed)
def cubed_forward(x: Tensor[...], y, dx):
    return 3.0 * x * x * dx

struct Layer[D, H]:
    w: Tensor[D, H, f64]
    b: Tensor[H, f64]
    turns: Tensor[i32]

    def apply(self, x: Tensor[B, D, f64]) -> Tensor[B, H, f64]:
        return tanh(x @ self.w + self.b)

def shrunk(layer: Layer[D, H]) -> Layer[D, H]:
    return layer - 0.25 * grad(lambda s: sum(sin(s.w)) + sum(s.b * s.b * s.b))(layer)

def positive(x: Tensor[D, H, f64]) -> Tensor[D, D, f64]:
    y = bent(x)
    return y @ y.T + diag(1.0 + cast(arange(D), f64))

"""
POINTWISE = ("sin(r) * exp(-r * r)", "tanh(r) * r", "cubed(bent(r))", "softplus(r) - r * 0.5", "sqrt(r * r + 1.0)")
MAPPED = ("r * tanh(sum(r))", "grad(lambda t: sum(sin(t) * t))(r)", "where(sum(r) > 0.0137, r, 2.0 * r)", *POINTWISE)
REDUCED = tuple(f"{name}({{x}}, axis=0)" for name in ("var", "std", "logsumexp", "norm", "median"))
LOOPS = ("with checkpoint(every=2):", "with checkpoint(slots=3):")


class TransformWriter(EdgeWriter):
    """`stopped` are the names of what `stop_gradient` holds, with their types as text. Nothing is printed: how often
    a derivative runs what it differentiates is not said."""

    effects = 0.0

    def __init__(self, seed: int, rng: random.Random) -> None:
        super().__init__(seed, rng)
        self.stopped: dict[str, str] = {}

    def _makers(self) -> list[tuple[int, Callable[[], None]]]:
        more: list[tuple[int, Callable[[], None]]] = [
            (2, self._scanned),
            (2, self._mapped),
            (1, self._recomputed),
            (1, self._layered),
            (1, self._solved),
            (2, self._reduced),
            (1, self._ruled),
            (1, self._dropped),
        ]
        return [*super()._makers(), *more, *([(1, self._held)] if self.depth == 1 else [])]

    # ----------------------------------------------------------------------------------------------- transforms

    def _scanned(self) -> None:
        name, type_ = self._float(1)
        row = TensorType(type_.dims[1:], F64)
        if self.rng.random() < 0.4:
            self._bind(f"reduce(lambda c, r: tanh(c * 0.5 + r), {name}[0], {name})", row, "reduce")
            return
        last, rows = self._fresh(), self._fresh()
        self._write(f"{last}, {rows} = scan(lambda c, r: (bent(c * 0.5 + r), sin(c) * r), {name}[0], {name})")
        self._bind(last, row, "scan")
        self._bind(rows, type_, "scan")

    def _mapped(self) -> None:
        name, type_ = self._float(1)
        axes = ", in_axes=1, out_axes=1" if type_.rank > 1 and self.rng.random() < 0.4 else ""
        self._bind(f"vmap(lambda r: {self.rng.choice(MAPPED)}{axes})({name})", type_, "vmap")

    def _recomputed(self) -> None:
        name, type_ = self._float(0)
        self._bind(f"checkpoint(lambda r: {self.rng.choice(POINTWISE)})({name})", type_, "checkpoint")

    def _ruled(self) -> None:
        name, type_ = self._float(0)
        self._bind(f"cubed(bent({name}))", type_, "jvp_of")

    def _held(self) -> None:
        name, type_ = self._float(0)
        if name.startswith("p"):
            raise NoFit
        self.stopped[name] = type_text(type_)
        self._bind(f"stop_gradient({name}) * 0.5", type_, "stop_gradient")

    def _dropped(self) -> None:
        name, type_ = self._float(0)
        self._bind(f"dropout({name}, 0.5, seed={self.rng.randint(0, 9)})", type_, "dropout")

    # --------------------------------------------------------------------------------------- structs and matrices

    def _layered(self) -> None:
        name, type_ = self._float(2, 2)
        layer, (d, h) = self._fresh(), type_.dims
        self._write(f"{layer} = Layer[{d}, {h}](w={name}, b={name}[0], turns=cast(2, i32))")
        text, dims = self.rng.choice(
            [
                (f"shrunk({layer}).w", (d, h)),
                (f"grad(lambda s: sum(s.w * s.w * s.w) + sum(sin(s.b)))({layer}).b", (h,)),
                (f"{layer}({name} @ {name}.T)", (d, h)),
            ]
        )
        self._bind(text, TensorType(dims, F64), "struct")

    def _solved(self) -> None:
        name, type_ = self._float(2, 2)
        (d, h), matrix = type_.dims, self._fresh()
        self._write(f"{matrix} = positive({name})")
        function, text, dims = self.rng.choice(
            [
                ("solve", f"solve({matrix}, {name})", (d, h)),
                ("inv", f"inv({matrix})", (d, d)),
                ("cholesky", f"cholesky({matrix})", (d, d)),
                ("triangular_solve", f"triangular_solve({matrix}, {name})", (d, h)),
                ("slogdet", f"slogdet({matrix})[1]", ()),
                ("eigvalsh", f"eigvalsh({matrix} + diag(8.0 * cast(arange({d}), f64)))", (d,)),
            ]
        )
        self._bind(text, TensorType(dims, F64), function)

    def _reduced(self) -> None:
        name, type_ = self._float(1)
        text = self.rng.choice(REDUCED if type_.rank == 2 else REDUCED[:-1])
        self._bind(text.format(x=name), TensorType(type_.dims[1:], F64), text.split("(")[0])

    # ---------------------------------------------------------------------------------------------- control flow

    def _for(self) -> None:
        self._perhaps_in(LOOPS, super()._for)

    def _while(self) -> None:
        self._perhaps_in(("with checkpoint(max_steps=8):", LOOPS[0]), self._plain_while)

    def _plain_while(self) -> None:
        """A number of turns, or as long as a value says."""
        carried, counter = self._carried(), self._fresh()
        self._write(f"{counter} = cast(0, i32)")
        more = f" and sum({carried} * {carried}) > 0.2137" if self.rng.random() < 0.5 else ""
        self._write(f"while {counter} < {self.rng.randint(1, 4)}{more}:")
        self._block(carried, f"{counter} = {counter} + 1")
        self.used.append("while")

    def _perhaps_in(self, heads: tuple[str, ...], loop: Callable[[], None]) -> None:
        """What a loop keeps is said for a third of them. Names that are made inside a `with` live on."""
        if self.rng.random() < 0.67:
            loop()
            return
        self._write(self.rng.choice(heads))
        self.depth += 1
        loop()
        self.depth -= 1

    def _float(self, least: int, most: int = 4) -> tuple[str, TensorType]:
        name = self._any(lambda t: t.dtype is F64 and least <= t.rank <= most)
        return name, self.names[name]
