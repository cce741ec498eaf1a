"""The registry's cases as programs: for tests, and for checks on machines where there is no pytest."""

from __future__ import annotations

import re

import numpy as np

from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region
from tesserac.numerics.narrow import convert, storage
from tesserac.ops.registry import OPERATORS, Operator
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, lookup
from tesserac.types.policy import NO_POLICY, parse_policy
from tesserac.types.ty import TensorType


def registry_cases() -> list[tuple[str, Operator, tuple[str, ...]]]:
    """Name, operator and the types of its operands."""
    return [
        (f"{name}-{i}", operator, types)
        for name, cls in OPERATORS.items()
        for i, (operator, types) in enumerate(cls.cases())
    ]


def parse_type(text: str) -> TensorType:
    match = re.fullmatch(r"(\w+)\s*(@.*)?\[(.*)\]", text)
    assert match
    dtype = lookup(match[1])
    assert dtype is not None
    policy = parse_policy(match[2]) if match[2] else NO_POLICY
    return TensorType(tuple(Dim.const(int(d)) for d in match[3].split(",") if d.strip()), dtype, policy)


def module_of(operator: Operator, types: list[TensorType]) -> Module:
    block = Block(types)
    builder = Builder(block)
    result = builder.value(PREFIX + operator.name, block.args, operator.infer(types), operator_attrs(operator))
    builder.op("graph.return", (result,))
    attrs = {"sym_name": "f", "params": ("x",) * len(types), "guards": (), "entry": True}
    return Module([Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)])])


def sample(ty: TensorType, rng: np.random.Generator) -> np.ndarray:
    shape = [d.evaluate({}) for d in ty.dims]
    if ty.dtype is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if ty.dtype.is_integer:
        return rng.integers(1, 9, shape).astype(storage(ty.dtype))
    values = rng.uniform(0.5, 3, shape)
    return convert(values + 1j * rng.uniform(-3, 3, shape) if ty.dtype.is_complex else values, ty.dtype)
