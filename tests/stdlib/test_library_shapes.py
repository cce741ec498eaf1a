"""Every function of the library over sizes that hypothesis draws: nothing, one, odd ones and larger ones. The example
of its doc string is compiled once, with its symbols for sizes; machine code gives the oracle's bits at each of them, or
a guard refuses them."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import tessera
from tesserac.graph.interp import run_function
from tesserac.graph.interp_indexed import BadIndex
from tesserac.ir.core import Module
from tesserac.ir.forms import tensor_type
from tesserac.numerics.narrow import storage
from tesserac.types.ty import TensorType
from tests.support.cpu_kernels import same_bits
from tests.support.library_functions import example_of, public_names
from tests.support.sampling import spread
from tests.support.source_support import compile_to_forms

SIZES = (0, 1, 2, 3, 7, 17, 33)
LARGE = 65
ELSEWHERE = ("linalg", "fft", "operators")
"""Folders whose functions loop over rows or are compiled for each size: `test_linalg`, `test_fft` and `test_algebra`
draw those."""
BAD_INDEX = "E0927"
"""Where the oracle finds a bad index, too."""
REFUSED = {"flash_attention": "E0933"}
"""Beside guards: the cache of an example holds 16 rows."""


def symbolic_examples() -> dict[str, str]:
    """The examples in which a size has no number, by function."""
    found = {}
    for path, name in public_names():
        text = example_of(path, name)
        drawn = not any(f"/{folder}/" in f"/{path}" for folder in ELSEWHERE)
        if drawn and re.search(r"Tensor\[[^\]]*\b[A-Z]\w*\b", text.partition("\n")[0]):
            found[name] = text
    return found


EXAMPLES = symbolic_examples()


@cache
def compiled(text: str) -> tuple[Module, tessera.module.Module]:
    return compile_to_forms(text), tessera.compile(text)


def operand(ty: TensorType, sizes: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = [dim.evaluate(sizes) for dim in ty.dims]
    if ty.dtype.is_integer:
        return rng.integers(0, 2, shape).astype(storage(ty.dtype))
    return np.asarray(rng.uniform(0.1, 0.9, shape)).astype(storage(ty.dtype))


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", spread(EXAMPLES, 30))
@example((0,) * 5)
@example((1,) * 5)
@example((LARGE, 3, 2, 1, 1))
@given(st.tuples(*[st.sampled_from(SIZES)] * 5))
@settings(max_examples=1, phases=(Phase.explicit, Phase.generate), deadline=None)
def test_shapes(name: str, drawn: tuple[int, ...]) -> None:
    forms, module = compiled(EXAMPLES[name])
    (function,) = forms.ops
    types = [tensor_type(value) for value in function.body.args]
    symbols = sorted({symbol for ty in types for dim in ty.dims for symbol in dim.symbols()})
    sizes = dict(zip(symbols, drawn, strict=False))
    args = [operand(ty, sizes, np.random.default_rng(0)) for ty in types]
    try:
        got = module.f(*args)
    except tessera.TesseraError as refused:
        if refused.code == BAD_INDEX:
            with pytest.raises(BadIndex):
                run_function(forms, function.symbol, args)
            return
        assert refused.code in ("E0925", REFUSED.get(name)), refused
        return
    results = got if isinstance(got, tuple) else (got,)
    try:
        expected = run_function(forms, function.symbol, args)
    except BadIndex:
        assert all(np.size(result) == 0 for result in results), "code that reads nothing looks at no place"
        return
    for one, other in zip(results, expected, strict=True):
        same_bits(np.asarray(one), np.asarray(other))


def test_most_functions_are_drawn() -> None:
    assert len(EXAMPLES) > 80
