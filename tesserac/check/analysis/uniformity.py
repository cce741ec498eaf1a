"""Whether all devices come to a collective: none may stand where they could go different ways.

Enters: what decides in the run (the test of an `if`, of a `while`), and the collectives that it decides on. Leaves:
E0605, unless every device has the same there. See Note [What devices agree on].
"""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.scope import Binding
from tesserac.check.state.body import Body
from tesserac.check.state.parts import Meeting
from tesserac.diag.codes.effects import E0605
from tesserac.ops.collective import Collective
from tesserac.types.ty import ErrorType

Ends = Mapping[str, Binding]
"""What the names that a loop carries are bound to at the end of an iteration."""
NO_LOOP: Ends = {}


def require_uniformity(
    body: Body, first: int, test: typed.Expr, asked: Span | None = None, ends: Ends = NO_LOOP
) -> None:
    """Reports the first of the meetings from number `first` on that not all devices may come to, since `test` decides.
    `asked` is where the program writes the test, if it does."""
    for meeting in body.devices.meetings[first:]:
        if not isinstance(test.type, ErrorType) and not agrees(body, test, meeting.axis, ends):
            _report(body, meeting, test.span, asked)
            return


def _report(body: Body, meeting: Meeting, at: Span, asked: Span | None) -> None:
    draft = body.sink.error(E0605, at=meeting.span, axis=meeting.axis, name=meeting.name)
    draft.note(at, "each device decides this by itself")
    draft.remark("a collective waits for all devices: one that does not come leaves the others waiting")
    if asked is not None:
        together = f'all_reduce({body.rules.text(asked)}, "{meeting.axis}", op="any")'
        draft.replace("decide it together", asked, together)


def agrees(body: Body, value: typed.Expr, axis: str, ends: Ends = NO_LOOP) -> bool:
    """Whether a value is the same on all devices along an axis."""
    return _Judge(body, axis, ends).same(value)


class _Judge:
    def __init__(self, body: Body, axis: str, ends: Ends) -> None:
        self._body = body
        self._axis = axis
        self._ends = ends
        self._assumed: set[str] = set()

    def same(self, value: typed.Expr) -> bool:
        match value:
            case typed.Static():
                return True
            case typed.Local():
                return self._local(value)
            case typed.Apply(op=Collective() as op) if op.across == self._axis:
                return op.agreed
            case typed.Apply(operands=parts) | typed.TupleOf(items=parts):
                return all(map(self.same, parts))
            case typed.Coerce() | typed.Item() | typed.Checkpoint() | typed.Let():
                return self.same(value.value)
            case typed.Conditional(test=test, then=then, otherwise=otherwise):
                return all(map(self.same, (test, then, otherwise)))
            case typed.Call():
                return self._call(value)
        return False

    def _local(self, value: typed.Local) -> bool:
        binding = self._body.origins.get(value)
        if binding is None:
            return False
        pinned = self._body.scope.pinned.get(value.name)
        if pinned is not None and pinned.binding is binding:
            return self._carried(binding)
        return binding.value is not None and self.same(binding.value)

    def _carried(self, binding: Binding) -> bool:
        """What a loop carries is the same at every iteration if it is at the first, and if an iteration that begins so
        ends so."""
        if binding.name not in self._ends or binding.value is None:
            return False
        if binding.name in self._assumed:
            return True
        self._assumed.add(binding.name)
        end = self._ends[binding.name]
        return self.same(binding.value) and (end is binding or (end.value is not None and self.same(end.value)))

    def _call(self, call: typed.Call) -> bool:
        """A function that only computes gives the same for the same; of one that communicates it is known."""
        across = self._body.devices.uniform.get(call.function, {})
        if self._axis in across:
            return across[self._axis]
        return not call.reads and call.key is None and all(map(self.same, call.args))


# Note [What devices agree on]
# Devices that run one program with different data go different ways at a test, and a collective on one of the ways
# never ends. So what decides on one must be the same everywhere: known while compiling, made by a collective that gives
# all devices the same (`all_reduce`, `all_gather`), or computed from such values alone. Parameters may differ, since
# each device has its own; so may random numbers. What a function gives is judged where it is defined. The IR is held to
# the same (`graph/uniformity.py`), whatever passes do to it.
