"""The table of equivalents: every name of ours exists, and every name of a peer that is there; none is listed as
missing that we have; all of ONNX is in it."""

from __future__ import annotations

import importlib
import re
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from docs.beyond import BEYOND
from docs.equivalents import MISSING, ML, ML_WITHOUT, PEERS, Row, rows
from tests.support.checking import check_text, library

WORDS = ("if", "for", "while", "rank", *"xyzvijkn", *"MN", "None", "shape", "size", "at", "set", "add", "mask")
WORDS += ("low", "high", "axis", "ddof", "range")
"""Of the language, and of the expressions in the table."""


@cache
def own_names() -> set[str]:
    return {name for result in library() for name in result.checker.names.names()}


def peer_names(peer: str) -> list[str]:
    place = PEERS.index(peer)
    return [row.theirs[place] for row in rows() if row.theirs[place]]


def found(modules: list[Any], path: str) -> bool:
    return any(_reached(module, path.split(".")) for module in modules)


def _reached(holder: Any, names: list[str]) -> bool:
    for name in names:
        if isinstance(holder, ModuleType) and not hasattr(holder, name):
            try:
                holder = importlib.import_module(f"{holder.__name__}.{name}")
                continue
            except ImportError:
                return False
        if not hasattr(holder, name):
            return False
        holder = getattr(holder, name)
    return True


def test_names_of_ours_exist() -> None:
    written = [row.ours for row in rows() if row.section != MISSING]
    assert len(written) > 300 and all(written)
    names = {name for text in written for name in re.findall(r"[A-Za-z_]\w*", text)}
    assert sorted(names - own_names() - {*WORDS}) == []


def test_names_in_remarks_exist() -> None:
    """What a remark calls is there to be called."""
    called = {name for row in rows() for name in re.findall(r"`(\w+)\(", row.note)}
    assert sorted(called - own_names() - {"len"}) == []


def test_missing_rows_say_why() -> None:
    lacking = [row for row in rows() if row.section == MISSING]
    assert all(row.note and any(row.theirs) and not row.ours for row in lacking)
    plain = [_snake(name) for row in lacking for name in row.theirs if name]
    assert sorted({*plain} & own_names() - {"mean", "sum", "select"}) == []


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_no_name_stands_twice() -> None:
    def key(row: Row) -> tuple[str, ...]:
        return (row.ours, *row.theirs)

    every = [key(row) for row in rows()]
    assert len(every) == len(set(every))


OF_SOME_VERSIONS = {"row_stack", "linear_cross_entropy", "linalg.matrix_sqrth", "scaled_addmm", "FlexAttention"}
"""NumPy 2.5 has the first no longer, torch 2.11 and 2.13 and ONNX 1.23 do not have the others
yet: the table is for users of any."""


def lacking(peer: str, modules: list[Any]) -> list[str]:
    return [name for name in peer_names(peer) if not found(modules, name) and name not in OF_SOME_VERSIONS]


def test_numpy_has_what_the_table_says() -> None:
    assert [name for name in lacking("NumPy", [np]) if not name.startswith("scipy.")] == []


@pytest.mark.one_in(16)
def test_scipy_has_what_the_table_says() -> None:
    scipy = pytest.importorskip("scipy", reason="needs the extra `peers`")
    names = [name for name in peer_names("NumPy") if name.startswith("scipy.")]
    assert len(names) > 50 and [name for name in names if not found([scipy], name.removeprefix("scipy."))] == []


@pytest.mark.one_in(16)
def test_torch_has_what_the_table_says() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra `peers`")
    modules = [torch, torch.nn.functional, torch.Tensor]
    assert lacking("torch", modules) == []


@pytest.mark.one_in(16)
def test_jax_has_what_the_table_says() -> None:
    jax = pytest.importorskip("jax", reason="needs the extra `peers`")
    assert lacking("JAX", [jax]) == []


def test_onnx_is_in_the_table() -> None:
    defs = pytest.importorskip("onnx.defs", reason="needs the extra `peers`")
    every = {schema.name for schema in defs.get_all_schemas() if schema.domain == ""}
    assert sorted((every ^ {*peer_names("ONNX")}) - OF_SOME_VERSIONS) == []


def test_onnx_of_classical_learning_is_listed() -> None:
    defs = pytest.importorskip("onnx.defs", reason="needs the extra `peers`")
    every = {schema.name for schema in defs.get_all_schemas() if schema.domain == "ai.onnx.ml"}
    assert every == {name for name, _ in ML} | {name for names in ML_WITHOUT.values() for name in names.split()}


GIVEN = "x: Tensor[4, 3, f32], y: Tensor[4, 2, f32], w: Tensor[3, 5, f32], b: Tensor[5, f32], i: Tensor[2, i64], "
GIVEN += "v: f32, values: Tensor[7, f32], keys: Tensor[7, f32], gamma: f32, vectors: Tensor[6, 3, f32], "
GIVEN += "coefficients: Tensor[6, f32], offset: Tensor[3, f32], scale: Tensor[3, f32]"


def test_expressions_of_classical_learning_are_programs() -> None:
    text = "\n".join(f"def f{n}({GIVEN}):\n    return {ours}\n" for n, (_, ours) in enumerate(ML))
    assert [d.title for d in check_text(text).diagnostics] == []


def unlisted(peer: str, modules: list[Any]) -> list[str]:
    """Public functions of modules that are not called so here, nor in the table, nor in the list of others. Names
    with _ at the end are of updates in place."""
    place = PEERS.index(peer)
    listed = {name.rpartition(".")[2] for name in peer_names(peer)} | BEYOND_NAMES[place] | own_names()
    named = {name for module in modules for name in dir(module) if _is_function(getattr(module, name, None))}
    return sorted(name for name in named if not name.startswith("_") and not name.endswith("_") and name not in listed)


def of_version(module: Any, *wanted: str) -> None:
    """Other versions have other functions: the list is of some."""
    if not module.__version__.startswith(tuple(f"{each}." for each in wanted)):
        pytest.skip(f"the list is of {module.__name__} {' and '.join(wanted)}")


BEYOND_NAMES = [{name for row in BEYOND for name in row[place + 1].split()} for place in range(3)]


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type) and bool(value.__doc__)


def test_all_of_numpy_is_listed() -> None:
    of_version(np, "2.4")
    assert unlisted("NumPy", [np, np.linalg, np.fft, np.random]) == []


@pytest.mark.one_in(4)
def test_all_of_torch_is_listed() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra `peers`")
    of_version(torch, "2.13", "2.15")
    modules = [torch, torch.nn.functional, torch.linalg, torch.special, torch.fft]
    assert unlisted("torch", modules) == []
    listed = {name.rpartition(".")[2] for name in peer_names("torch")} | BEYOND_NAMES[PEERS.index("torch")]
    inits = [name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    laws = torch.distributions.Distribution
    known = [each.__name__ for each in vars(torch.distributions).values() if isinstance(each, type)]
    known = [name for name in known if issubclass(getattr(torch.distributions, name, int), laws)]
    bases = {"Distribution", "ExponentialFamily", "Optimizer", "LRScheduler", "_LRScheduler"}
    places = ((torch.optim, torch.optim.Optimizer), (torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler))
    steps = [name for place, base in places for name in dir(place) if _is_below(getattr(place, name), base)]
    assert sorted({*inits, *known, *steps} - listed - bases) == []


def _is_below(value: Any, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


@pytest.mark.one_in(8)
def test_all_of_jax_is_listed() -> None:
    jax = pytest.importorskip("jax", reason="needs the extra `peers`")
    of_version(jax, "0.10")
    more = [importlib.import_module(f"jax.{name}") for name in ("scipy.special", "nn.initializers")]
    modules = [jax.numpy, jax.numpy.linalg, jax.numpy.fft, jax.nn, jax.lax, jax.random, *more]
    assert unlisted("JAX", modules) == []
    below = ["linalg", "signal", "fft", "ndimage", "interpolate", "integrate", "optimize"]
    below += ["cluster.vq", "sparse.linalg"]
    laws = [each for each in vars(importlib.import_module("jax.scipy.stats")).values() if isinstance(each, ModuleType)]
    assert unlisted("JAX", [*laws, *(importlib.import_module(f"jax.scipy.{name}") for name in below)]) == []
    assert methods("JAX", jax.Array) == []


def methods(peer: str, array: type) -> list[str]:
    """Those of an array, with others that a class has for itself."""
    listed = {name.rpartition(".")[2] for name in peer_names(peer)} | BEYOND_NAMES[PEERS.index(peer)] | own_names()
    named = {name for name in dir(array) if callable(getattr(array, name, None))}
    return sorted(name for name in named if not name.startswith("_") and not name.endswith("_") and name not in listed)


@pytest.mark.one_in(4)
def test_all_methods_of_arrays_are_listed() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra `peers`")
    of_version(torch, "2.13", "2.15")
    of_version(np, "2.4")
    assert methods("torch", torch.Tensor) == [] and methods("NumPy", np.ndarray) == []


@pytest.mark.one_in(4)
def test_all_of_special_functions_is_listed() -> None:
    scipy = pytest.importorskip("scipy", reason="needs the extra `peers`")
    of_version(scipy, "1.17")
    assert unlisted("NumPy", [importlib.import_module("scipy.special")]) == []
