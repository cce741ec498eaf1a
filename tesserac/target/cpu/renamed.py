"""Kernels that do the same with sizes of other names have one code, which is written once.

    cpu.kernel @f$110 {symbols = ["N", "t"]}     N - 32*t        define void @f$110(...) { its code }
    cpu.kernel @f$119 {symbols = ["N", "t_1"]}   N - 32*t_1      @f$119 = alias void (...), ptr @f$110

Enters: lowered kernels, one by one. Leaves: the one before that does the same, if there is one. A kernel is given its
sizes one after the other, so a launch of the second hands over what the first takes. Loops of a library function that
is called twice, and two loops over the same blocks, have counters that only their names tell apart.
"""

from __future__ import annotations

from tesserac.graph.substitute import substitute_attr
from tesserac.ir.core import Attr, Op, attr_tuple
from tesserac.ir.meaning import Meanings
from tesserac.ir.types import Type
from tesserac.types.dims import Dim

Outline = tuple[int, tuple[str, ...]]
"""What two kernels must have in common to be compared: the number of their sizes, and the names of operations."""


class Renamed:
    """The kernels of one program so far."""

    def __init__(self) -> None:
        self._seen: dict[Outline, list[Op]] = {}
        self._said: dict[Op, str] = {}

    def earlier(self, kernel: Op) -> Op | None:
        """The first kernel that says the same of its sizes as this one of its own."""
        outline = len(attr_tuple(kernel, "symbols", str)), tuple([op.name for op in kernel.walk()])
        others = self._seen.setdefault(outline, [])
        same = next((other for other in others if self._of(other) == self._of(kernel)), None)
        if same is None:
            others.append(kernel)
        return same

    def _of(self, kernel: Op) -> str:
        if kernel not in self._said:
            self._said[kernel] = _meaning(kernel)
        return self._said[kernel]


def _meaning(kernel: Op) -> str:
    """All that the code of a kernel depends on; its sizes are called by their places, but for those that have a name
    which says what they are."""
    names = attr_tuple(kernel, "symbols", str)
    places = {name: Dim.sym(f"#{place:03}") for place, name in enumerate(names) if "." not in name}
    meanings = _Placed(places)
    own = [f"{name} = {meanings.printed(value)}" for name, value in kernel.attrs.items() if name not in _NAMES]
    kept = [f"{place} {name}" for place, name in enumerate(names) if name not in places]
    return "\n".join([*own, *kept, meanings.of_body(kernel.body)])


_NAMES = ("sym_name", "symbols")


class _Placed(Meanings):
    """With sizes called by their places."""

    def __init__(self, places: dict[str, Dim]) -> None:
        super().__init__()
        self._places = places

    def shown(self, value: Attr | Type) -> str:
        return super().shown(substitute_attr(value, self._places))
