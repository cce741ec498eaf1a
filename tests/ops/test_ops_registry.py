"""The registry writes the operators' tests: what a class states about itself holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

import numpy as np
import pytest

from tesserac.base.dataclass import dataclass
from tesserac.ops.elementwise import Add
from tesserac.ops.registry import OPERATORS, Array, Operator, numpy_dtype, register, static_fields
from tesserac.ops.scalar import PRIMITIVES
from tesserac.ops.signature import SignatureError, parse_signature
from tesserac.ops.unify import BroadcastMismatch, DimMismatch, DTypeMismatch, KindMismatch, Mismatch, OuterProduct
from tesserac.types.dims import Dim, parse_dim
from tesserac.types.dtype import DType, lookup
from tesserac.types.policy import parse_policy
from tesserac.types.ty import TensorType
from tests.support.checking import check_text
from tests.support.folding import folded


def read_type(text: str) -> TensorType:
    """`bf16 @accum(f32)[M, 4]`."""
    match = re.fullmatch(r"(\w+)((?: @\w+\([^)]*\))*)\[(.*)\]", text)
    assert match is not None, text
    dtype = lookup(match[1])
    assert dtype is not None
    dims = tuple(parse_dim(part) for part in match[3].split(",") if part.strip())
    return TensorType(dims, dtype, parse_policy(match[2]))


def cases() -> Iterator[tuple[Operator, tuple[str, ...]]]:
    for operator in OPERATORS.values():
        yield from operator.cases()


def case_id(case: object) -> str:
    return case.name if isinstance(case, Operator) else "-".join(case) if isinstance(case, tuple) else "?"


def sample(ty: TensorType, rng: np.random.Generator) -> Array:
    sizes = [dim.evaluate({}) for dim in ty.dims]
    if ty.dtype.kind == "b":
        return rng.integers(0, 2, sizes).astype(bool)
    if ty.dtype.is_integer:
        return rng.integers(1, 9, sizes).astype(numpy_dtype(ty.dtype))
    values = rng.uniform(0.5, 2.0, sizes)
    return (values - 0.5j * values if ty.dtype.is_complex else values).astype(numpy_dtype(ty.dtype))


def stored(dtype: DType, array: Array) -> bool:
    return array.dtype == numpy_dtype(dtype)


@folded(("operator", "operands"), cases, ids=case_id)
def test_the_shape_rule_is_that_of_the_reference(operator: Operator, operands: tuple[str, ...]) -> None:
    types = [read_type(text) for text in operands]
    rng = np.random.default_rng(0)
    result = operator.infer(types)
    expected = operator.reference(*(sample(ty, rng) for ty in types))
    assert [dim.constant for dim in result.dims] == list(np.shape(expected))
    assert stored(result.dtype, np.asarray(expected))


@pytest.mark.one_in(2)
@folded("name", sorted(OPERATORS))
def test_the_example_checks_without_a_word(name: str) -> None:
    doc = OPERATORS[name].__doc__ or ""
    program = dedent(doc[doc.index("    def ") :])
    assert check_text(program).diagnostics == ()


@folded(("operator", "operands"), cases, ids=case_id)
def test_static_attributes_are_the_fields(operator: Operator, operands: tuple[str, ...]) -> None:
    assert type(operator)(**static_fields(operator)) == operator
    hash(operator)


@pytest.mark.parametrize(
    ("name", "operands", "mismatch"),
    [
        ("add", ("f32[N]", "f32[M]"), BroadcastMismatch),
        ("add", ("f32[N, 1]", "f32[N]"), OuterProduct),
        ("add", ("f32[N]", "f32[N, 1]"), OuterProduct),
        ("add", ("f32[N]", "bf16[N]"), DTypeMismatch),
        ("div", ("i32[N]", "i32[N]"), KindMismatch),
        ("matmul", ("f32[M, K]", "f32[L, N]"), DimMismatch),
        ("matmul", ("f32[A, M, K]", "f32[B, K, N]"), BroadcastMismatch),
        ("matmul", ("f32[K]", "f32[L]"), DimMismatch),
    ],
)
def test_what_does_not_fit(name: str, operands: tuple[str, ...], mismatch: type[Mismatch]) -> None:
    with pytest.raises(mismatch):
        OPERATORS[name]().infer([read_type(text) for text in operands])


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("add", ("f32[N, 1]", "f32[1, M]"), "f32[N, M]"),
        ("add", ("f32[N, M]", "f32[M]"), "f32[N, M]"),
        ("add", ("bf16[N]", "bf16 @accum(f32)[N]"), "bf16 @accum(f32)[N]"),
        ("where", ("bool[N, 1]", "f32[N, M]", "f32[M]"), "f32[N, M]"),
        ("matmul", ("f32[B, 1, M, K]", "f32[1, H, K, N]"), "f32[B, H, M, N]"),
        ("matmul", ("i8[M, K]", "i8[K, N]"), "i32[M, N]"),
        ("matmul", ("fp8_e4m3 @accum(f32)[M, K]", "fp8_e5m2 @accum(f32)[K, N]"), "fp8_e4m3 @accum(f32)[M, N]"),
        ("wide", ("bf16 @accum(f32)[N]",), "f32[N]"),
    ],
)
def test_symbolic_results(name: str, operands: tuple[str, ...], result: str) -> None:
    assert OPERATORS[name]().infer([read_type(text) for text in operands]) == read_type(result)


def test_facts_may_make_sizes_equal() -> None:
    def same(left: Dim, right: Dim) -> bool:
        return {str(left), str(right)} <= {"F", "H"} or left == right

    assert Add().infer([read_type("f32[F]"), read_type("f32[H]")], same).dims == (Dim.sym("F"),)


def test_every_operator_has_cases() -> None:
    assert not [name for name, operator in OPERATORS.items() if not operator.cases()]


def test_the_registry_refuses_what_is_incomplete() -> None:
    with pytest.raises(TypeError, match="lacks"):

        @register
        @dataclass(frozen=True)
        class Half(Operator):
            """An operator without an example."""

            name = "half_made"

    with pytest.raises(TypeError, match="registered twice"):
        register(OPERATORS["add"])


@pytest.mark.parametrize("text", ["x -> y", "(x: N[a b]) -> N[a]", "(x: thing) -> N[]", "(x: N[a]) -> N"])
def test_a_malformed_signature_is_found_at_import(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_signature(text)


def test_primitives_say_what_they_are() -> None:
    assert all(row.doc.endswith(".") and row.arity in (1, 2, 3) for row in PRIMITIVES.values())
