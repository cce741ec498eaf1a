"""Kernels that are alike share their PTX: LLVM makes it once.

    @step$3        alloca [512 x double]      at most 256 segments     \\
    @step$3_deep   alloca [1280 x double]     any number of them        >   @alike   alloca [1048576 x double]
    @slope$7       alloca [512 x double]      of another function      /

Enters: LLVM text of one kernel. Leaves: its PTX. Two kernels are alike if they differ in nothing but their name and the
size of the one room that a thread has in memory of its own; functions that compute the same things in part, and the
variants of a sum for few and for many segments, have many of them. See Note [Rooms of other sizes].
"""

from __future__ import annotations

import re
from hashlib import sha256
from threading import Lock
from weakref import WeakValueDictionary

from tesserac.base.dataclass import dataclass
from tesserac.target.nvptx.worker import emit_ptx_apart

_ENTRY = re.compile(r"define ptx_kernel void @([^(]+)\(")
_ROOM = re.compile(r"= alloca (?:\[(\d+) x (float|double)\])?")
_DEPOT = re.compile(r"(__local_depot0\[)(\d+)(\])")
_BYTES = {"float": 4, "double": 8}
_NAME = "tessera_kernel_like_others"
_MOST = 1 << 20
"""Values of a room that has no size of its own."""


class _Shared:
    """The PTX of a text without a name and a size; whoever is alike has the same object."""

    def __init__(self, text: str, arch: str) -> None:
        self._text, self._arch = text, arch
        self._turn = Lock()
        self._made: str | None = None

    def ptx(self) -> str:
        with self._turn:
            if self._made is None:
                self._made, self._text = emit_ptx_apart(self._text, self._arch), ""
            return self._made


_known: WeakValueDictionary[bytes, _Shared] = WeakValueDictionary()
"""What the kernels that there are hold."""
_asking = Lock()


@dataclass(frozen=True)
class Alike:
    """One kernel among those that are alike."""

    name: str
    room: int | None
    """Bytes of its own memory, where that is not in the text that is shared."""
    shared: _Shared

    def ptx(self) -> str:
        made = self.shared.ptx().replace(_NAME, self.name)
        return made if self.room is None else _DEPOT.sub(rf"\g<1>{self.room}\g<3>", made)


def alike(text: str, arch: str) -> Alike:
    """The kernel that a text defines. Its PTX is made when it is first asked for, and kept as long as one that is alike
    is there."""
    entry = _ENTRY.search(text)
    assert entry is not None, "a text has one kernel"
    name = entry[1]
    common, room = _without_size(text.replace(f"; {name}\n", "", 1).replace(f"@{name}(", f"@{_NAME}("))
    key = sha256(f"{arch}\n{common}".encode()).digest()
    with _asking:
        shared = _known.setdefault(key, _Shared(common, arch))
    return Alike(name, room, shared)


def _without_size(text: str) -> tuple[str, int | None]:
    """The text with a room of any size, and the bytes of this one; as it is where there is none, or others beside."""
    rooms = list(_ROOM.finditer(text))
    if len(rooms) != 1 or rooms[0][1] is None:
        return text, None
    room = rooms[0]
    return f"{text[: room.start(1)]}{_MOST}{text[room.end(1) :]}", int(room[1]) * _BYTES[room[2]]


# Note [Rooms of other sizes]
# The slots of a sum's binary counter are an array in memory of the thread's own, which is all that a variant for more
# segments has more of. PTX says its size once, where it is declared, and no instruction depends on it: what LLVM makes
# of a large array is right for a small one too, if nothing beyond its end is used, which both variants promise. A room
# of its own size matters: the driver sets memory aside for as many threads as the GPU can hold. Where LLVM has no use
# for the array there is nothing to declare.
