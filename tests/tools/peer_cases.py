"""What a case beside PyTorch is, and the largest difference of its values and gradients, in f64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tessera

DTYPES = {"f": "f64", "i": "i64", "b": "bool", "c": "c128"}


@dataclass(frozen=True)
class Case:
    """A call in Tessera, its operands by name, and what PyTorch makes of them. Operands of floats have gradients."""

    call: str
    operands: dict[str, np.ndarray]
    peer: Callable[..., Any]

    @property
    def typed(self) -> str:
        return ", ".join(f"{name}: {_type(array)}" for name, array in self.operands.items())

    @property
    def wrt(self) -> list[int]:
        return [i for i, array in enumerate(self.operands.values()) if array.dtype.kind == "f"]


def _type(array: np.ndarray) -> str:
    return f"Tensor[{', '.join([*map(str, array.shape), DTYPES[array.dtype.kind]])}]"


def program(cases: Sequence[Case]) -> str:
    return "".join(_functions(i, case) for i, case in enumerate(cases))


def _functions(i: int, case: Case) -> str:
    """Value and gradient together: compiled once."""
    names = ", ".join(case.operands)
    slopes = f"grad(lambda {names}: sum(square({case.call})), wrt=({', '.join(map(str, case.wrt))},))({names})"
    return f"def f{i}({case.typed}):\n    return {case.call}, {slopes}\n"


def differences(cases: Sequence[Case], torch: Any) -> Iterator[tuple[str, float, float]]:
    module = tessera.compile(program(cases))
    for i, case in enumerate(cases):
        args = list(case.operands.values())
        operands = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in args]
        wanted = case.peer(*operands)
        wanted.square().sum().backward()
        found, slopes = getattr(module, f"f{i}")(*args)
        rises = [_slope(operands[j]) for j in case.wrt]
        values = _apart(found, wanted.detach().numpy())
        yield case.call, values, max(_apart(a, b) for a, b in zip(slopes, rises, strict=True))


def _slope(operand: Any) -> np.ndarray:
    return np.zeros(operand.shape) if operand.grad is None else np.asarray(operand.grad.numpy())


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference; infinite where one is a number and the other is none."""
    if not np.array_equal(np.isnan(found), np.isnan(wanted)) or np.shape(found) != np.shape(wanted):
        return float("inf")
    return float(np.nanmax(np.abs(found - wanted), initial=0.0))
