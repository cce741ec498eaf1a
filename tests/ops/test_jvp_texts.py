"""Derivatives as texts (`cos(x) * dx`): a tangent that is absent counts as zero, wherever in the text it stands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

import tesserac.graph.dialect  # noqa: F401  (register the operations)
from tesserac.graph.autodiff.writing import fit, writer
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import tangent_by_text
from tesserac.ops.registry import OPERATORS
from tests.ops.test_graph_lower import parse_type
from tests.support.derivative_runs import run_body

TANGENTS = ("dx", "dy", "dz")
TEXTS = [
    "fma(dx, y, dy)",
    "fma(x, dy, dz) - dx",
    "-(ldexp(fma(dx, y, x * dy), z))",
    "where(x < y, fma(dx, y, dz), ldexp(dy, z))",
    "fma(dx + dy, y, where(x < y, dx, dz)) / y",
    "fma(2 * dx, y, 0 * dz)",
]
OWN = sorted({o.differential for o in OPERATORS.values() if o.differential not in ("", "0")})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", [*TEXTS, *OWN])
def test_absent_tangents_are_zeros(text: str) -> None:
    names, ty = (*"xyz", *TANGENTS), parse_type("f64[3]")
    given = [np.array(row) for row in ([2.0, 3.0, 1.0], [3.0, 2.0, 1.5], [1.0, -2.0, 3.0])]
    for there in product((False, True), repeat=3):
        moves = [np.array([0.5, -1.0, 2.0]) * (number + 1) * kept for number, kept in enumerate(there)]

        def body(builder: Builder, args: Sequence[Value], there: Sequence[bool] = there) -> list[Value]:
            write, values = writer(builder, {}), dict(zip(names, args, strict=True))
            absent = {
                name: value for name, value in values.items() if name not in TANGENTS or there[TANGENTS.index(name)]
            }
            found = []
            for known in (values, {name: absent.get(name) for name in names}):
                tangent = tangent_by_text(text, write, {**known, "result": values["x"]}, tensor_type(args[0]))
                full = write.zeros(ty) if not isinstance(tangent, Value) else fit(write, tangent, args[0])
                found.append(full)
            return found

        whole, partial = run_body(body, [ty] * 6, [*given, *moves])
        np.testing.assert_array_equal(whole, partial, str(there))
