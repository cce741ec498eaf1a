"""Pass `loads first`: programs that map blocks ask for all that they read before they wait for any of it.

    %a = gpu.load(%x, ...); %m = gpu.map(%a) ...; %b = gpu.load(%y, ...); %n = gpu.map(%m, %b) ...
  becomes
    %a = gpu.load(%x, ...); %b = gpu.load(%y, ...); %m = gpu.map(%a) ...; %n = gpu.map(%m, %b) ...

Enters: a kernel, all else decided. Leaves: the same; of those that load, map and store blocks, loads stand first. A
program waits for memory once then, and not once for each of its tiles.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op
from tesserac.tile.gpu.model.touched import written_memory

PLACES = ("gpu.axis", "gpu.load")
MAPS = {*PLACES, "gpu.map", "gpu.cast", "gpu.store", "gpu.return"}


def load_first(kernel: Op) -> None:
    """Changes the kernel in place."""
    body = kernel.body
    if any(op.name not in MAPS for op in body.ops if op.opdef.dialect == "gpu"):
        return
    written = {value for op in body.ops for value in written_memory(op)}
    first = next(op for op in body.ops if not _says_where(op))
    behind = body.ops[body.place(first) :]
    for op in [op for op in behind if _says_where(op) and written.isdisjoint(op.operands)]:
        op.detach()
        Builder.before(first).add(op)


def _says_where(op: Op) -> bool:
    """Whether an operation needs nothing that is computed of blocks."""
    return op.name in PLACES or op.opdef.dialect == "index"
