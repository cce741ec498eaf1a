"""Kernels that say the same become one: the layers of a model differ in their weights, not in their code.

Enters: the kernels of a module and the host programs that launch them. Leaves: one kernel of each kind, the first,
which all launches of its like now name. Names of values and places in the source do not count. Launches that say the
same before there are kernels have theirs built once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tesserac.ir.core import Op
from tesserac.ir.meaning import Meanings


def share_kernels(kernels: Sequence[Op], hosts: Iterable[Op]) -> list[Op]:
    """The kernels that are left."""
    first, meanings = dict[str, Op](), Meanings()
    chosen = {kernel.symbol: first.setdefault(meanings.of(kernel), kernel).symbol for kernel in kernels}
    for host in hosts:
        for launch in host.walk():
            if launch.name == "tile.launch":
                launch.attrs["kernel"] = chosen[str(launch.attrs["kernel"])]
    return list(first.values())
