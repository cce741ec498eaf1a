"""The typed program: what the checker hands to the graph builder.

Enters: nothing; these are the results of `check`. Leaves: one `TypedFunction` per function and instantiation, in
which every expression has a type, every name is resolved, every scalar has met its dtype, and every operator has
its operands and static attributes apart. It is a family of its own beside `syntax/ast.py`, without optional types.

How to read it:
- A *static* value (an int, a bool, a string, a dtype, None, a float known while compiling, a tuple of such) is a
  `Static`: its type carries the value, so there is nothing else to compute. An int may be a size: `N/2 + i`.
- A `FloatType` whose value is not known is a 0-d f64 tensor at run time, until a `Coerce` rounds it once. As an
  operand of an `Apply` it counts as that tensor.
- Names are rebound, never mutated: `Bind` puts a new value under a name, from there on.
- Random numbers come from a key that a function with the effect `random` takes as it takes a param of its module, under
  the name `STREAM`. A call from outside makes a new one; inside, keys follow from keys.
- In an `If` either no branch returns or both do; then it is the last statement of its block.
"""

from __future__ import annotations

from typing import Literal

from tessera.random_stream import STREAM as STREAM
from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model.contracts import Across as Across
from tesserac.check.model.contracts import Alternative as Alternative
from tesserac.check.model.contracts import Cut as Cut
from tesserac.check.model.contracts import Form as Form
from tesserac.check.model.contracts import Guard as Guard
from tesserac.check.model.contracts import Param as Param
from tesserac.check.model.contracts import Program as Program
from tesserac.check.model.contracts import Promise as Promise
from tesserac.check.model.contracts import Request as Request
from tesserac.check.model.contracts import Settings as Settings
from tesserac.check.model.contracts import balanced as balanced
from tesserac.check.model.contracts import rule_text
from tesserac.ops.registry import GuardKind as GuardKind
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.ty import Type

# ----------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, eq=False)
class Node:
    """An expression: its type and the text it stands for. Compared by identity."""

    type: Type
    span: Span


@dataclass(frozen=True, eq=False)
class Static(Node):
    """A value known while compiling; `type` carries it."""


@dataclass(frozen=True, eq=False)
class Local(Node):
    """What `name` is bound to here: a parameter, an assignment, or what a loop carries."""

    name: str


@dataclass(frozen=True, eq=False)
class Weight(Node):
    """A param of the module; the function lists it among its `reads`."""

    name: str


@dataclass(frozen=True, eq=False)
class NextKey(Node):
    """A key of the random stream that the function was given: another at each place and at each iteration of a loop.
    The function lists `STREAM` among its `reads`."""


@dataclass(frozen=True, eq=False)
class Coerce(Node):
    """A scalar meets a dtype: an int or float becomes the float or 0-d tensor that `type` says, rounded once."""

    value: Expr


@dataclass(frozen=True, eq=False)
class Apply(Node):
    """A tier-1 operator, with its static attributes, on operands; `schedule` says how it runs."""

    op: Operator
    operands: tuple[Expr, ...]
    schedule: Settings = ()


@dataclass(frozen=True)
class Rule:
    """A derivative of a function that the program gives: the symbol of the function that computes it, forward or in
    reverse, and what each of that one's symbols is at the call."""

    forward: bool
    function: str
    dims: tuple[tuple[str, Dim], ...]


@dataclass(frozen=True, eq=False)
class Call(Node):
    """A call of a checked function, by its symbol. `args` has one entry per parameter, defaults filled in, and `dims`
    says what each of the callee's symbols is here, so that inlining is a substitution. `reads` are the params of the
    module that the callee reads. Where `STREAM` is among them the callee's stream is `key`, or, where that is None,
    follows from the caller's. `rules` are its derivatives where these do not follow from its body; a call that is
    `closed` to derivatives is of a kernel that has none. One that is `meant` takes the body of the function. `schedule`
    goes before what the kernels of the function say themselves. `forms` are what it may be replaced by. What it
    asserts is said of `told`, where a program did not call the function itself, but asked an operator, which is `of`
    these kinds."""

    function: str
    args: tuple[Expr, ...]
    dims: tuple[tuple[str, Dim], ...]
    reads: tuple[str, ...] = ()
    key: Expr | None = None
    rules: tuple[Rule, ...] = ()
    closed: bool = False
    meant: bool = False
    schedule: Settings = ()
    forms: tuple[Form, ...] = ()
    told: str = ""
    of: str = ""


@dataclass(frozen=True, eq=False)
class TupleOf(Node):
    """Values as one: a tuple, a struct, or a function with what it captured, as `type` says."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Item(Node):
    """One item of a tuple, or one field of a struct, by its position."""

    value: Expr
    index: int


@dataclass(frozen=True, eq=False)
class Conditional(Node):
    """`then if test else otherwise` where only a run knows `test`, a `Tensor[bool]`. For `sized` see `If`."""

    test: Expr
    then: Expr
    otherwise: Expr
    sized: bool = False


@dataclass(frozen=True, eq=False)
class Let(Node):
    """`value` where the names that `bindings` bind have those values; outside they are not seen."""

    bindings: Block
    value: Expr


@dataclass(frozen=True, eq=False)
class Derivative(Node):
    """How `value` changes with names that are bound in it: `params` to `args`. `wrt` are the positions of those that
    count.

    Forward, `seeds` are tangents of these, and it is a pair: the value, and its tangent. In reverse, the one seed is
    the cotangent of the value, and the pair is the value and a tuple of cotangents. Where it `has_aux` the value is a
    pair, and the seed is of its first item: nothing comes back from the second.
    """

    reverse: bool
    params: tuple[str, ...]
    args: tuple[Expr, ...]
    wrt: tuple[int, ...]
    seeds: tuple[Expr, ...]
    value: Expr
    has_aux: bool = False


@dataclass(frozen=True, eq=False)
class Mapped(Node):
    """`value` for every element of a mapped dim of this size: `params` are names bound in it, to one element of each of
    `args`. `in_axes` says for each of these where the dim stands in its tensors (None: it has none), `out_axes`
    where it stands in those of the result (None: all elements have the same). `axis_name` is the axis of a mesh whose
    devices the elements are; empty where they are none.
    """

    params: tuple[Param, ...]
    args: tuple[Expr, ...]
    in_axes: tuple[tuple[int | None, ...], ...]
    value: Expr
    out_axes: tuple[int | None, ...]
    size: Dim
    axis_name: str = ""


@dataclass(frozen=True, eq=False)
class Checkpoint(Node):
    """The value; a derivative computes again what is inside, instead of keeping it."""

    value: Expr


Expr = (
    Static | Local | Weight | NextKey | Coerce | Apply | Call | TupleOf | Item | Conditional | Let | Derivative | Mapped
    | Checkpoint
)


# ------------------------------------------------------------------------------------------------ statements


@dataclass(frozen=True, eq=False)
class Bind:
    """`name = value`."""

    span: Span
    name: str
    value: Expr


@dataclass(frozen=True, eq=False)
class BindTuple:
    """`a, b = value`, all at once; `value` is a tuple of that length."""

    span: Span
    names: tuple[str, ...]
    value: Expr


@dataclass(frozen=True, eq=False)
class Evaluate:
    """A call made for its effect."""

    span: Span
    value: Expr


@dataclass(frozen=True, eq=False)
class Shown:
    """A value inside a `Print`, under a format such as `.3f`, or none."""

    value: Expr
    format: str


@dataclass(frozen=True, eq=False)
class Print:
    """Text and values to print one after the other; spaces and the newline are part of the text."""

    span: Span
    pieces: tuple[str | Shown, ...]


@dataclass(frozen=True, eq=False)
class Assert:
    """A run-time check; one that compiling decides leaves no statement, one on sizes is a guard. `shown` is what to
    say besides where it fails: a first line that belongs to the message, and notes after it, a line each. `compares` is
    said of one that a kernel gives what it implements."""

    span: Span
    test: Expr
    message: str
    shown: tuple[str | Shown, ...] = ()
    compares: bool = False


@dataclass(frozen=True, eq=False)
class Require:
    """A check of sizes where the program comes to it, since not every call does: a guard, or that `left` is a position
    in a dim of size `right`. `code` is the expression that needs it, `shown` the index as it was written, `reason` says
    why it is not decided while compiling. It belongs to what is computed: no build leaves it out."""

    span: Span
    kind: GuardKind | Literal["in_range"]
    left: Dim
    right: Dim
    code: str
    reason: str
    shown: Dim | None = None

    @property
    def text(self) -> str:
        """The rule as a user would write it."""
        return rule_text(self.kind, self.left, self.right)


@dataclass(frozen=True, eq=False)
class Numerics:
    """From here on, to the end of the block or the next of these, operators have this mode: `fast`, or none."""

    span: Span
    mode: str


@dataclass(frozen=True, eq=False)
class Return:
    span: Span
    value: Expr


@dataclass(frozen=True)
class Carried:
    """A name whose value goes through a loop, or comes out of a branch, with the one type it has."""

    name: str
    type: Type


@dataclass(frozen=True, eq=False)
class If:
    """A branch that a run decides; `results` are the names bound in it that live on after it. Where it is `sized` what
    a branch does may rely on sizes that are so only where it is taken."""

    span: Span
    test: Expr
    then: Block
    otherwise: Block
    results: tuple[Carried, ...]
    sized: bool = False


@dataclass(frozen=True)
class LoopMemory:
    """What a derivative may keep of a loop, by `with checkpoint(...)`; None where nothing is said. `every` is how many
    iterations lie between states that are kept, `slots` how many states there may be, `max_steps` how many
    iterations."""

    every: Dim | None = None
    slots: int | None = None
    max_steps: Dim | None = None


@dataclass(frozen=True, eq=False)
class For:
    """`for index in range(start, stop, step)`; bounds are ints.

    In the body `index` is a size: types there may mention it as a symbol of that name. A loop over blocks says what it
    `cut`s; its bounds are those of the meaning, in which one block spans its dim.
    """

    span: Span
    index: str
    start: Expr
    stop: Expr
    step: int
    body: Block
    carried: tuple[Carried, ...]
    memory: LoopMemory | None = None
    cut: Cut | None = None


@dataclass(frozen=True, eq=False)
class While:
    """`test` reads the carried names; it is evaluated before every iteration."""

    span: Span
    test: Expr
    body: Block
    carried: tuple[Carried, ...]
    memory: LoopMemory | None = None


Stmt = Bind | BindTuple | Evaluate | Print | Assert | Require | Numerics | Return | If | For | While
Block = tuple[Stmt, ...]


# ------------------------------------------------------------------------------------------------- functions


@dataclass(frozen=True, eq=False)
class TypedFunction:
    """One function, or one instantiation of a generic one: fixed dtypes, policies and ranks, any dims.

    `symbols` are the sizes it is polymorphic in; all are bound by the dims of its parameters or by int
    parameters of that name. `result` is the type of every `Return` in `body`. `reads` are the params of the module that
    it and its callees read, or need for a size of the module: at run time they are parameters after its own. `within`
    is what the library says of its results: every element lies there if the arguments are finite. `promises` are what
    `@verify.numerics` asks of the results. `donated` are the parameters whose memory a caller from outside gives away.
    A kernel is `closed`: not differentiated through its body; its body is the meaning, and `program` what it does block
    by block; one that is no tile program says in `apart` why. `forward` is the rule of what it implements, `backward`
    that where there is only one for reverse mode. `collectives` are the axes across which it and its callees
    communicate. `requests` are what its own text asks of where and how it runs. `graph` is what `@graph.module` calls
    it. `alternatives` are the kernels of the program that implement it. `pinned` are the sizes of blocks that the
    program of a kernel means. A `pattern`
    is what a kernel implements, as the program writes it, wherever that stands; that of a `law` is of the library.
    `expected` are sizes that `@sizes` tells to expect. Where `columns`, each column of what stands beside a matrix is
    computed alone.
    """

    symbol: str
    name: str
    params: tuple[Param, ...]
    result: Type
    symbols: tuple[str, ...]
    guards: tuple[Guard, ...]
    effects: frozenset[str]
    body: Block
    span: Span
    exported: bool
    doc: str
    reads: tuple[Param, ...] = ()
    within: tuple[float, float] | None = None
    promises: tuple[Promise, ...] = ()
    donated: tuple[str, ...] = ()
    closed: bool = False
    program: Program | None = None
    apart: str = ""
    forward: str = ""
    backward: str = ""
    collectives: tuple[Across, ...] = ()
    requests: tuple[Request, ...] = ()
    graph: str = ""
    alternatives: tuple[Alternative, ...] = ()
    pinned: tuple[tuple[str, int], ...] = ()
    pattern: str = ""
    expected: tuple[tuple[str, int], ...] = ()
    law: bool = False
    columns: bool = False


@dataclass(frozen=True, eq=False)
class TypedModule:
    """The functions of one module that need no arguments to be known, and its tests, in source order."""

    name: str
    functions: tuple[TypedFunction, ...]
    tests: tuple[TypedFunction, ...]
