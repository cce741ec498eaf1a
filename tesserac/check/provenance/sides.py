"""An operand in a message: its shape, the axis that does not fit, and where that size came from.

Enters: a use of an operator and a place in it. Leaves: the texts and labels that several explanations share.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.check.model import typed
from tesserac.check.model.message_text import axis_text, dim_text, dims_text
from tesserac.check.model.operator_use import Use
from tesserac.check.provenance.chains import Chain, one_line
from tesserac.check.provenance.origins import Trail, trace
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.ops.unify import Place
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Side:
    """One operand and the axis of it that does not fit."""

    operand: typed.Expr
    axis: int
    dims: tuple[Dim, ...]
    text: str
    trail: Trail

    @staticmethod
    def of(body: Body, use: Use, place: Place) -> Side:
        operand = use.operands[place.operand]
        assert isinstance(operand.type, TensorType)
        trail = trace(body, operand, place.axis)
        return Side(operand, place.axis, operand.type.dims, body.rules.text(operand.span), trail)

    @property
    def dim(self) -> Dim:
        return self.dims[self.axis]

    @property
    def name(self) -> str:
        """`q: ` where the operand is a name; nothing for a longer expression."""
        return f"{self.text}: " if self.text.isidentifier() else ""

    @property
    def label(self) -> str:
        place = axis_text(self.axis, len(self.dims))
        return f"{self.name}{dims_text(self.dims)} - {place} dim is {dim_text(self.dim)}"


def show_origin(body: Body, draft: Draft, side: Side) -> None:
    """A label at the declaration of a dim: how it got from there to the operand."""
    declared = side.trail.declared
    if declared is None:
        return
    dim, named = dim_text(side.dim), [step for step in side.trail.steps if step.name]
    if named:
        step = named[-1]
        through = f"`{one_line(body, step.span)}` (line {body.rules.line(step.span)})"
        text = f"{dim} enters `{step.name}` here, through {through}"
    elif is_used_once(body, side.dim):
        text = f"{dim} is declared here and used nowhere else"
    else:
        text = f"{dim} is declared here"
    draft.note(declared, text)


def is_used_once(body: Body, dim: Dim) -> bool:
    return dim.symbol is not None and len(body.declared.dim_spans.get(dim.symbol, ())) == 1


def show_steps(body: Body, draft: Draft, *sides: Side) -> None:
    """What the dims went through, and the facts by which they are what they are: each once, four in all."""
    chain = Chain(body)
    for side in sides:
        chain.add_trail(side.trail)
    chain.add_facts(*(side.dim for side in sides))
    chain.show(draft)
