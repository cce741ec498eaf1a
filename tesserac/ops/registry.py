"""Tier 1: what an operator is, and the table of all of them.

Enters: classes decorated with `@register`, from the modules that `ops/__init__.py` lists. Leaves: `OPERATORS`, by name.
One operator is one class, and its instances are uses of it: the fields are its static attributes, as in
`Sum(axes=(1,), keep=False)`. See Note [What an operator must have].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import eq
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import Array as Array
from tesserac.base.lazy import ml_dtypes, np
from tesserac.ir.boxes import is_size
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.numerics.interval import ANYTHING, Interval, hull
from tesserac.ops.signature import ANY_ELEMENT, ELEMENT_CLASSES, ComputedDims, Element, Signature, parse_signature
from tesserac.ops.unify import FIXED, DimMatcher, Mismatch, SameSize, choose, match_elements, result_storage
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy
from tesserac.types.ty import TensorType

if TYPE_CHECKING:
    from tesserac.ops.batching import Batching
    from tesserac.ops.calculus import Writer

GuardKind = Literal["equal", "divides", "at_least"]
Linearity = Literal["", "jointly", "each"]
Extent = Callable[[Dim], Interval]
"""What is known of a size: at least 0, and at most what facts say."""


@dataclass(frozen=True)
class Need:
    """What an operator demands of sizes: `kind` as of a guard. `problem` says what is wrong where it cannot hold."""

    kind: GuardKind
    left: Dim
    right: Dim
    problem: str


def new_axis(axis: int, rank: int) -> tuple[Need, ...]:
    """What an axis that a result has beside those of its operand must be."""
    problem = f"axis {axis} is out of range for a result of {rank + 1} dims"
    return (
        Need("at_least", Dim.const(rank), Dim.const(axis), problem),
        Need("at_least", Dim.const(axis), Dim.const(-rank - 1), problem),
    )


@dataclass(frozen=True)
class Operator(ABC):
    """A tensor operator with its static attributes.

    Subclasses set `name` and `signatures` (text, see `signature.py`; several where they differ by rank).
    `mixes_fp8` allows operands of two fp8 formats; `accumulates` says that its result is a running sum or product,
    which may lose bits. Of the rules of differentiation each has one, see Note [One rule per operator].
    """

    name: ClassVar[str]
    signatures: ClassVar[tuple[str, ...]]
    parsed: ClassVar[tuple[Signature, ...]]
    surface: ClassVar[bool] = True  # whether programs may call it by name
    more_options: ClassVar[Mapping[str, str]] = {}
    """Options that a function of the library around the operator has, and its name: a call with one is a call of it."""
    of_integers: ClassVar[str | None] = None
    """The function of the library that takes integers, where it does not itself: a call with some is a call of it."""
    of_trees: ClassVar[bool] = False
    """Whether a struct, tuple or list may be its only operand: a call with one is a call with each tensor of it."""
    others: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """What other libraries call its operands and options."""
    mixes_fp8: ClassVar[bool] = False
    accumulates: ClassVar[bool] = False
    again: ClassVar[bool] = False  # whether it costs little where its operands are there: pointwise, or a view
    ordered: ClassVar[bool] = False  # whether elements along its axis follow one another or compete
    linear: ClassVar[Linearity] = ""
    """Linear in all operands that have tangents jointly, or in each of them alone."""
    pole: ClassVar[tuple[int, float] | None] = None
    """An operand, counted from 0, and its value at which finite numbers give inf, whatever the dtype holds."""
    whole: ClassVar[tuple[int, ...]] = ()
    """Operands, counted from 0, that are whole numbers held in floats. Being whole, they have no tangents."""
    lift: ClassVar[int] = 0
    """The exponent of a power of two that all results carry: a dtype that does not hold it overflows."""
    differential: ClassVar[str] = ""
    """The tangent of the result as an expression: `cos(x) * dx`. `0` where it is zero wherever there is one."""
    not_differentiable: ClassVar[str] = ""
    """Why there is no derivative."""
    effect: ClassVar[str] = ""
    """What it does besides computing, in the order of the program: one of those that `ir/ordering.py` knows."""
    batching: ClassVar[Batching | None] = None
    """The family whose rule says how mapped operands are taken; None where it has a rule of its own."""

    @classmethod
    @abstractmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        """Operators with operand types such as `f32[3, 4]`, for the test that walks the registry."""

    @abstractmethod
    def reference(self, *operands: Array) -> Array:
        """The meaning in NumPy, for tolerances; the bits are `numerics`' business."""

    @abstractmethod
    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        """The operator as structural forms: a value of type `result`. These are its bits."""

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        """The dims that the signature writes `{dims}`."""
        raise NotImplementedError(f"{self.name} has no computed dims")

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        """Why operands whose dims the signature leaves open do not fit."""
        return None

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        """What must hold of the sizes of operands that fit otherwise; unknown while compiling, it is a guard."""
        return ()

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """Whether it may end the call, or needs of the sizes what only its place in the program makes sure of."""
        sizes = tuple(dim for ty in operands for dim in ty.dims)
        return not all(n.kind == "at_least" and is_size(n.left - n.right, sizes) for n in self.needs(operands))

    def demands(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        """Sizes that must be numbers when code is made: a function is compiled once for each value that they take."""
        return ()

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        """Between what the exact results lie, before they are rounded, for operands within `ranges`. What works on
        elements of every kind can only move them (see Note [Operators that only move]); of others nothing is known
        unless they say it."""
        signature = self.parsed[0].for_count(len(operands))
        if (signature.result.element.variable, signature.result.element.function) != (ANY_ELEMENT, ""):
            return ANYTHING
        patterns = zip(signature.operands, ranges, strict=True)
        return hull(r for operand, r in patterns if operand.pattern.element.variable == ANY_ELEMENT)

    def largest_argument(self, dtype: DType) -> float | None:
        """The argument beyond which results overflow, of an operator that grows exponentially."""
        return None

    def storage(self) -> tuple[DType, Policy]:
        """The element that the signature writes `{dtype}`."""
        raise NotImplementedError(f"{self.name} has no computed dtype")

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """The tangent of the result. None is a zero tangent; at least one of `tangents` is not."""
        from tesserac.ops.calculus import differential, linear_tangent

        if self.linear:
            return linear_tangent(self, write, operands, tangents)
        return differential(self, write, operands, result, tangents)

    def is_linear_in(self, position: int) -> bool:
        """Whether it is linear in this operand, the others held fixed, and has a transpose for it."""
        return bool(self.linear)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """The cotangent of an operand in which the operator is linear, given that of the result. The other operands
        are at hand where it is linear in each alone."""
        raise NotImplementedError(f"{self.name} has no transpose")

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        """The results for all elements of a mapped dim, which is the first of operands that are `mapped` (at least one
        is) and of the result. See Note [One rule for a mapped dim] in `batching.py`."""
        from tesserac.ops.batching import FAMILIES

        assert self.batching is not None, f"{self.name} has no batching rule"
        return FAMILIES[self.batching](self, write, operands, mapped)

    def infer(self, operands: Sequence[TensorType], same: SameSize = eq) -> TensorType:
        """The type of the result. Raises a Mismatch."""
        signatures = [signature.for_count(len(operands)) for signature in self.parsed]
        signature = choose(signatures, tuple(ty.rank for ty in operands))
        elements = match_elements(signature.operands, operands, self.mixes_fp8)
        matcher = DimMatcher(same)
        for position, (operand, ty) in enumerate(zip(signature.operands, operands, strict=True)):
            matcher.bind(position, operand.pattern, ty.dims)
        if (mismatch := self.mismatch(operands, same)) is not None:
            raise mismatch
        result = signature.result
        computed = any(isinstance(part, ComputedDims) for part in result.dims)
        dims = self.dims(tuple(operands)) if computed else matcher.result(result)
        if result.element.variable == "{dtype}":
            dtype, policy = self.storage()
        else:
            dtype, policy = result_storage(result.element.function, elements[result.element.variable])
        return TensorType(dims, dtype, policy)


OPERATORS: dict[str, type[Operator]] = {}

O = TypeVar("O", bound=type[Operator])  # noqa: E741


def register(cls: O) -> O:
    """Adds an operator, or refuses it: a rule that is missing must not wait for a user to find it. That it has cases is
    for the test that walks the registry to see: to make those of all takes a fifteenth of the compiler's start."""
    missing = [part for part in ("name", "signatures") if not hasattr(cls, part)]
    missing += sorted(getattr(cls, "__abstractmethods__", ()))
    if "def " not in (cls.__doc__ or ""):
        missing.append("a docstring with an example that runs")
    if missing:
        raise TypeError(f"operator {cls.__name__} lacks {', '.join(missing)}")
    if cls.name in OPERATORS:
        raise TypeError(f"operator {cls.name} is registered twice")
    cls.parsed = tuple(parse_signature(text) for text in cls.signatures)
    if (fault := _rule_fault(cls) or _batching_fault(cls)) is not None:
        raise TypeError(f"operator {cls.name} {fault}")
    OPERATORS[cls.name] = cls
    return cls


def _rule_fault(cls: type[Operator]) -> str | None:
    """What is wrong with the rules of differentiation of an operator."""
    is_linear, has_own = bool(cls.linear), cls.derivative is not Operator.derivative
    rules = (is_linear, has_own or bool(cls.differential), bool(cls.not_differentiable))
    if not _is_smooth(cls.parsed[0]):
        return "has no tangents, but a rule for them" if any(rules) else None
    if sum(rules) != 1:
        return "needs one of: linear with a transpose, a derivative, a reason why it has none"
    lacks_transpose = is_linear and cls.transpose is Operator.transpose
    return "is linear, but has no transpose" if lacks_transpose else None


def _batching_fault(cls: type[Operator]) -> str | None:
    """What is wrong with the rule for mapped operands; one without operands needs none."""
    if not cls.parsed[0].operands:
        return None
    rules = (cls.batching is not None, cls.batched is not Operator.batched)
    return None if any(rules) else "needs a rule for mapped operands: a family, or its own"


def _is_smooth(signature: Signature) -> bool:
    """Whether operands and result can have tangents: floats and complex numbers do."""
    return any(_may_be_smooth(o.pattern.element) for o in signature.operands) and _may_be_smooth(
        signature.result.element
    )


def _may_be_smooth(element: Element) -> bool:
    kinds = "f" if element.variable == "{dtype}" else ELEMENT_CLASSES.get(element.variable[0], "")
    return element.variable not in FIXED and not set("fc").isdisjoint(kinds)


def static_fields(op: Operator) -> dict[str, object]:
    """The static attributes of an operator by name: `OPERATORS[op.name](**static_fields(op)) == op`."""
    return {field.name: getattr(op, field.name) for field in fields(op)}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that holds values of `dtype`; the narrow ones come from ml_dtypes."""
    named = getattr(ml_dtypes, dtype.numpy_name, None)
    return np.dtype(named if named is not None else dtype.numpy_name)


# Note [What an operator must have]
# `register` runs at import, so an operator without a signature, a NumPy reference, a lowering to forms, an
# example, a rule of differentiation, a rule for mapped operands or test cases cannot exist.

# Note [One rule per operator]
# Reverse mode is forward mode, then the transpose of what is linear in it: so an operator declares how tangents go
# forward (nothing, if it is linear: they go as its operands do), and a linear one how cotangents go back. There is no
# second rule that could disagree. A derivative may use operators linearly that are not linear in everything (`dx / y`):
# these have a transpose for such an operand beside their derivative.

# Note [Operators that only move]
# A signature that gives `E` for `E` holds for numbers, bools and complex numbers alike, so that the operator cannot
# compute with its elements: each element of the result is one of an operand. One that puts in something of its own
# (`pad` and its value) says so in `bounds`.
