"""Random well-typed programs, as source text: operators of the registry, functions of the library, control flow.

Enters: a seed. Leaves: a `Program`: its text, the types of its parameters, and sizes to run it with. Nothing is known
of single operators here: a call is drawn from a signature, and the operator's own rules say what its result is, or
that the call does not fit.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from tesserac.ops.rearrange import Split
from tesserac.ops.registry import OPERATORS, Need, Operator
from tesserac.ops.shape import Expand, Reshape
from tesserac.ops.signature import ELEMENT_CLASSES, Operand, StaticParameter
from tesserac.types.dims import Dim, DimError
from tesserac.types.dtype import BF16, BOOL, F32, F64, I32, I64, U8, DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType

SYMBOLS = ("N", "M", "K")
SMALL_SIZES = (1, 2, 3, 5, 8, 17)
NUMBERS = (1, 1, 2, 3)
MOST_ELEMENTS = 20_000
MOST_DIMS = 4
MOST_RESULTS = 8
DTYPES = (F32, F32, F32, F32, F32, F64, I32, BOOL)
CASTS = (F32, F32, F64, I32, I64, U8, BF16)
FUNCTIONS = (
    *("softmax", "log_softmax", "softmax_safe", "layernorm", "layernorm_safe", "rmsnorm", "rmsnorm_safe"),
    *("relu", "gelu", "silu", "sigmoid", "softplus", "mish", "hardswish", "elu", "sort"),
)
"""Functions of the library that take one float tensor with at least one dim and give one of the same type."""

NOT_DRAWN = frozenset({"einsum", "gather", "take_along_axis", "slice", "scatter_add"})
"""Their operands stand in relations that a signature does not say; there are statements of their own for them."""

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Program:
    """`f` takes `parameters`; every one of `sizes` is a set of sizes that suits it."""

    seed: int
    text: str
    parameters: tuple[TensorType, ...]
    sizes: tuple[Sizes, ...]
    operators: tuple[str, ...]


class NoFit(Exception):
    """This draw makes no sense here; draw again."""


class ProgramWriter:
    """`dtypes` are those of parameters, `casts` those that values are cast to, `not_drawn` operators never called,
    `thresholds` what conditions compare with, `head` what stands before `f`."""

    dtypes: ClassVar[tuple[DType, ...]] = DTYPES
    casts: ClassVar[tuple[DType, ...]] = CASTS
    not_drawn: ClassVar[frozenset[str]] = NOT_DRAWN
    thresholds: ClassVar[tuple[str, ...]] = ("0.0", "1.5", "-2.0")
    head: ClassVar[str] = ""

    def __init__(self, seed: int, rng: random.Random) -> None:
        self.seed, self.rng = seed, rng
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.used: list[str] = []
        self.changed: list[str] = []
        self.names: dict[str, TensorType] = {}
        larger = rng.choice((*SMALL_SIZES, 33, 600))
        self.sizes = [
            {symbol: rng.choice(SMALL_SIZES) for symbol in SYMBOLS},
            {symbol: rng.choice((0, 1, 4, larger)) for symbol in SYMBOLS},
        ]

    # ------------------------------------------------------------------------------------------------- programs

    def program(self, least: int, most: int) -> Program:
        parameters = [self._parameter() for _ in range(self.rng.randint(2, 4))]
        parameters[0] = TensorType((Dim.sym("N"), Dim.sym("M")), F32)
        parameters[1] = TensorType((Dim.sym("M"), Dim.sym("K")), F32)
        for number, type_ in enumerate(parameters):
            self.names[f"p{number}"] = type_
        wanted = self.rng.randint(least, most)
        while len(self.used) < wanted:
            self._statement()
        results = [*self._unread(self.names)[-MOST_RESULTS:], *(n for n in self.changed if n in self.names)]
        head = ", ".join(f"p{i}: {type_text(t)}" for i, t in enumerate(parameters))
        results = results or list(self.names)[-1:]
        body = "\n".join([*self.lines, f"    return {', '.join(results)}"])
        sizes = tuple(dict(s) for s in self.sizes)
        text = f"{self.head}def f({head}):\n{body}\n"
        return Program(self.seed, text, tuple(parameters), sizes, tuple(self.used))

    def _parameter(self) -> TensorType:
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3))
        dims = tuple(self._dim() for _ in range(rank))
        return TensorType(dims, self.rng.choice(self.dtypes))

    def _dim(self) -> Dim:
        return Dim.sym(self.rng.choice(SYMBOLS)) if self.rng.random() < 0.75 else Dim.const(self.rng.choice(NUMBERS))

    def _statement(self) -> None:
        """One more statement; draws that do not fit are drawn again."""
        makers = self._makers()
        choices, weights = [maker for _, maker in makers], [weight for weight, _ in makers]
        while True:
            try:
                self.rng.choices(choices, weights)[0]()
                return
            except NoFit:
                continue

    def _makers(self) -> list[tuple[int, Callable[[], None]]]:
        """What a statement can be, and how often."""
        makers: list[tuple[int, Callable[[], None]]] = [
            (20, self._operator),
            (6, self._infix),
            (4, self._function),
            (3, self._cut),
            (2, self._gathered),
            (2, self._update),
            (1, self._product),
        ]
        if self.depth == 1:
            makers += [(2, self._for), (1, self._while), (2, self._if)]
        return makers

    # ------------------------------------------------------------------------------------------------ operators

    def _operator(self) -> None:
        """A call drawn from a signature of the registry."""
        drawable = [cls for cls in OPERATORS.values() if self._is_drawn(cls)]
        cls = self.rng.choice(drawable)
        signature = self.rng.choice(cls.parsed)
        elements: dict[str, str] = {}
        groups = [self._operands(operand, elements) for operand in signature.operands]
        operands = [name for group in groups for name in group]
        types = [self.names[name] for name in operands]
        fields: dict[str, object] = {}
        written: list[str] = []
        for static in signature.statics:
            text, values = self._static(static, types)
            written += [text] if text else []
            fields.update(values)
        arguments = [
            f"[{', '.join(group)}]" if operand.many else group[0]
            for operand, group in zip(signature.operands, groups, strict=True)
        ]
        self._apply(cls, fields, operands, f"{cls.name}({', '.join([*arguments, *written])})")

    def _is_drawn(self, cls: type[Operator]) -> bool:
        """Sizes of random programs are those of a call, so operators that demand numbers do not fit."""
        return cls.surface and cls.name not in self.not_drawn and cls.demands is Operator.demands

    def _apply(self, cls: type[Operator], fields: dict[str, object], operands: Sequence[str], text: str) -> None:
        types = [self.names[name] for name in operands]
        try:
            op = cls(**fields)
            self._refuse_unusual(op, types)
            result = op.infer(types)
            needs = op.needs(tuple(types))
        except Exception as problem:  # every rule of every operator says no in its own way
            raise NoFit from problem
        if not all(self._holds(need) for need in needs):
            raise NoFit
        if isinstance(op, Split):
            text = f"{text}[0]"
        self._bind(text, result, cls.name)

    def _refuse_unusual(self, op: Operator, types: Sequence[TensorType]) -> None:
        if isinstance(op, Reshape | Expand):
            raise NoFit  # what these accept is the checker's to say
        if any(t.policy != NO_POLICY or t.dtype is BF16 for t in types) and op.name != "cast":
            raise NoFit  # bf16 is cast to and from; folding it without a policy is a warning

    def _holds(self, need: Need) -> bool:
        for sizes in self.sizes:
            try:
                left, right = need.left.evaluate(sizes), need.right.evaluate(sizes)
            except DimError:
                return False
            divides = left != 0 and right % left == 0
            if not {"equal": need.left == need.right, "at_least": left >= right, "divides": divides}[need.kind]:
                return False
        return True

    def _operands(self, operand: Operand, elements: dict[str, str]) -> list[str]:
        wanted = self.rng.randint(1, 3) if operand.many else 1
        return [self._operand(operand, elements) for _ in range(wanted)]

    def _operand(self, operand: Operand, elements: dict[str, str]) -> str:
        variable = operand.pattern.element.variable
        fitting = [name for name, type_ in self.names.items() if self._element_fits(variable, type_, elements)]
        if not fitting:
            raise NoFit
        name = self.rng.choice(fitting[-8:])
        elements.setdefault(variable, self.names[name].dtype.name)
        return name

    def _element_fits(self, variable: str, type_: TensorType, elements: Mapping[str, str]) -> bool:
        if variable in elements:
            return type_.dtype.name == elements[variable]
        kinds = ELEMENT_CLASSES.get(variable.rstrip("0123456789"))
        return type_.dtype.kind in kinds if kinds is not None else type_.dtype.name == variable

    def _static(self, static: StaticParameter, types: Sequence[TensorType]) -> tuple[str, dict[str, object]]:
        """The argument as text, and the fields that it becomes."""
        rank = types[0].rank if types else 0
        if static.kind == "axes" and static.default is not None and self.rng.random() < (0.2 if rank else 1.0):
            return "", {"axes": tuple(range(rank))}
        if static.kind in ("axis", "axes", "order") and not rank:
            raise NoFit
        match static.kind:
            case "axes":
                axes = tuple(sorted(self.rng.sample(range(rank), self.rng.randint(1, rank))))
                return f"{static.name}={axes[0] if len(axes) == 1 else axes}", {"axes": axes}
            case "order":
                order = tuple(self.rng.sample(range(rank), rank))
                return str(order), {"order": order}
            case "dims":
                dims = tuple(self._dim() for _ in range(self.rng.randint(1, 3)))
                return f"({', '.join(map(str, dims))},)", {"shape": dims}
            case "dtype":
                dtype = self.rng.choice(self.casts)
                policy = Policy(accum=F32) if dtype is BF16 else NO_POLICY
                return f"{static.name}={dtype}{policy}", {"dtype": dtype, "policy": policy}
        of_bools = static.kind == "number" and bool(types) and types[0].dtype is BOOL
        value = True if of_bools else self._plain_static(static.kind, rank)
        return f"{static.name}={value}", {static.name: value}

    def _plain_static(self, kind: str, rank: int) -> object:
        """A static argument that is a field as it stands."""
        draws: dict[str, Callable[[], object]] = {
            "axis": lambda: self.rng.randrange(rank),
            "bool": lambda: self.rng.random() < 0.5,
            "int": lambda: self.rng.choice((1, 2, 3)),
            "size": self._dim,
            "number": lambda: self.rng.choice((0, 1, 2)),
        }
        if kind not in draws:
            raise NoFit
        return draws[kind]()

    # ------------------------------------------------------------------------------------------ other statements

    def _infix(self) -> None:
        left = self._any(lambda t: t.dtype in (F32, F64, I32, I64))
        type_, op = self.names[left], self.rng.choice("+-*")
        right = self.rng.choice([name for name, t in self.names.items() if t == type_])
        if type_.dtype.is_float and self.rng.random() < 0.5:
            right = self.rng.choice(("0.5", "2.0", "-1.25", "1e-3"))
        self._bind(f"{left} {op} {right}", type_, "infix")

    def _function(self) -> None:
        name = self._any(lambda t: t.dtype in (F32, F64) and t.rank > 0)
        function = self.rng.choice(FUNCTIONS)
        self._bind(f"{function}({name})", self.names[name], function)

    def _cut(self) -> None:
        """`x[1:]`, `x[::2]`, `x[0]`, `x[:, None]`: needs at least one element wherever it looks."""
        name = self._any(lambda t: t.rank > 0)
        type_ = self.names[name]
        first, *others = type_.dims
        if any(first.evaluate(sizes) < 1 for sizes in self.sizes):
            raise NoFit
        text, dims = self.rng.choice(
            [
                ("0", tuple(others)),
                ("-1", tuple(others)),
                ("1:", (first - Dim.const(1), *others)),
                (":, None", (first, Dim.const(1), *others)),
                ("..., None", (*type_.dims, Dim.const(1))),
            ]
        )
        self._bind(f"{name}[{text}]", TensorType(dims, type_.dtype, type_.policy), "index")

    def _gathered(self) -> None:
        """Rows of a tensor at places that are computed, hence reduced to the range."""
        name = self._any(lambda t: t.rank > 0)
        index = self._any(lambda t: t.dtype in (I32, I64) and t.rank < 3)
        type_, places = self.names[name], self.names[index]
        if any(type_.dims[0].evaluate(sizes) < 1 for sizes in self.sizes):
            raise NoFit
        rows = TensorType((*places.dims, *type_.dims[1:]), type_.dtype, type_.policy)
        place = f"{index} % {grouped(type_.dims[0])}"
        added = [other for other, t in self.names.items() if t == rows and rows.dtype.is_float]
        if added and self.rng.random() < 0.5:
            self._bind(f"scatter_add({name}, {place}, {self.rng.choice(added)})", type_, "scatter_add")
        else:
            self._bind(f"{name}[{place}]", rows, "gather")

    def _update(self) -> None:
        """`x[i] = v` on a copy of a name, so that the old value stays visible under its own."""
        name = self._any(lambda t: t.rank > 0 and t.dtype in (F32, F64))
        type_ = self.names[name]
        if any(type_.dims[0].evaluate(sizes) < 1 for sizes in self.sizes):
            raise NoFit
        row = TensorType(type_.dims[1:], type_.dtype, type_.policy)
        fitting = [other for other, t in self.names.items() if t == row] or ["0.5"]
        fresh = self._bind(name, type_, "update")
        self._write(f"{fresh}[{self.rng.choice(('0', '-1'))}] = {self.rng.choice(fitting)}")

    def _product(self) -> None:
        """`einsum` over a dim that two tensors share."""
        left = self._any(lambda t: t.rank == 2 and t.dtype in (F32, F64))
        dims = self.names[left].dims
        fits = lambda t: t.rank == 2 and t.dtype == self.names[left].dtype and dims[1] in t.dims  # noqa: E731
        right = self._any(fits)
        other = self.names[right].dims
        equation, free = ("ij,jk->ik", other[1]) if other[0] == dims[1] else ("ij,kj->ki", other[0])
        result = (dims[0], free) if equation.endswith("ik") else (free, dims[0])
        self._bind(f'einsum("{equation}", {left}, {right})', TensorType(result, self.names[left].dtype), "einsum")

    # ---------------------------------------------------------------------------------------------- control flow

    def _for(self) -> None:
        carried = self._carried()
        count = self.rng.choice(("3", "N", "2", "range(1, 4)"))
        loop = count if count.startswith("range") else f"range({count})"
        self._write(f"for turn{self.count} in {loop}:")
        self._block(carried)
        self.used.append("for")

    def _while(self) -> None:
        carried, counter = self._carried(), self._fresh()
        self._write(f"{counter} = cast(0, i32)")
        self._write(f"while {counter} < {self.rng.randint(1, 3)}:")
        self._block(carried, f"{counter} = {counter} + 1")
        self.used.append("while")

    def _if(self) -> None:
        carried = self._carried()
        scalar = self._any(lambda t: t.dtype in (F32, F64))
        self._write(f"if sum({scalar}) > {self.rng.choice(self.thresholds)}:")
        self._block(carried)
        if self.rng.random() < 0.6:
            self._write("else:")
            self._block(carried)
        self.used.append("if")

    def _carried(self) -> str:
        """A fresh name that a block may change: reads of it inside see the value of the turn before."""
        name = self._any(lambda t: t.dtype in (F32, F64) and t.policy == NO_POLICY)
        self.changed.append(self._bind(f"{name} + 0.25", self.names[name], "infix"))
        return self.changed[-1]

    def _block(self, carried: str, *last: str) -> None:
        outside = dict(self.names)
        self.depth += 1
        for _ in range(self.rng.randint(1, 4)):
            self._statement()
        type_ = self.names[carried]
        same = [name for name, t in self.names.items() if t == type_]
        terms = [f"{carried} * 0.5", self.rng.choice(same[-4:])]
        inner = {name: t for name, t in self.names.items() if name not in outside}
        terms += [self._digest(name, type_.dtype) for name in self._unread(inner)]
        self._write(f"{carried} = {' + '.join(terms)}")
        for line in last:
            self._write(line)
        self.depth -= 1
        self.names = outside

    def _digest(self, name: str, dtype: DType) -> str:
        """A number that follows from all of a tensor, so that what a block computes is seen outside of it."""
        total = self._fresh()
        kind = self.names[name].dtype.kind
        summed = {"b": f"count_nonzero({name})", "c": f"sum(abs({name}))"}.get(kind, f"sum(cast({name}, {dtype}))")
        self._write(f"{total} = cast({summed}, {dtype})")
        return f"where(isfinite({total}), {total}, 1.0)"

    def _unread(self, names: Mapping[str, TensorType]) -> list[str]:
        """The names that nothing written so far reads."""
        text = "\n".join(self.lines)
        return [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2 and not name.startswith("p")]

    # ------------------------------------------------------------------------------------------------------ names

    def _any(self, fits: Callable[[TensorType], bool]) -> str:
        fitting = [name for name, type_ in self.names.items() if fits(type_) and type_.dtype is not BF16]
        if not fitting:
            raise NoFit
        return self.rng.choice(fitting[-10:])

    def _bind(self, text: str, type_: TensorType, operator: str) -> str:
        self._refuse_large(type_)
        name = self._fresh()
        self._write(f"{name} = {text}")
        self.names[name] = type_
        self.used.append(operator)
        return name

    def _refuse_large(self, type_: TensorType) -> None:
        if type_.rank > MOST_DIMS or any(len(str(dim)) > 32 for dim in type_.dims):
            raise NoFit
        for sizes in self.sizes:
            try:
                extents = [dim.evaluate(sizes) for dim in type_.dims]
            except DimError:
                raise NoFit from None
            if prod(extents) > MOST_ELEMENTS or min(extents, default=0) < 0:
                raise NoFit

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)


def grouped(dim: Dim) -> str:
    return str(dim) if dim.symbol is not None or dim.constant is not None else f"({dim})"


def type_text(type_: TensorType) -> str:
    return f"Tensor[{', '.join([*map(str, type_.dims), f'{type_.dtype}{type_.policy}'])}]"
