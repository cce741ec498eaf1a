"""The table of equivalents: what NumPy, PyTorch, JAX and ONNX call what the library has, and what it lacks.

Enters: `equivalents.tsv`, one row for each name: ours, theirs, and what differs. Leaves: its rows.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tesserac.base.dataclass import dataclass

DATA = Path(__file__).parent / "equivalents.tsv"
PEERS = ("NumPy", "torch", "JAX", "ONNX")
MISSING = "Missing"


@dataclass(frozen=True)
class Row:
    section: str
    ours: str
    theirs: tuple[str, ...]
    note: str


@cache
def rows() -> tuple[Row, ...]:
    found, section = list[Row](), ""
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line and not line.startswith("#"):
            cells = [*line.split("\t"), *[""] * 5][:6]
            found.append(Row(section, cells[0], tuple(cells[1:5]), cells[5]))
    return tuple(found)


OF_ARRAYS_ALONE = frozenset({
    "Tensor.byte", "Tensor.char", "Tensor.dim", "Tensor.item", "Tensor.long", "Tensor.nelement", "Tensor.new_ones",
    "Tensor.new_zeros", "Tensor.numpy", "Tensor.put", "Tensor.short", "Tensor.stride", "Tensor.type", "ndarray.fill",
})  # fmt: skip
"""Methods that are usual words: of a name that nothing has their rows would say too much."""


@cache
def by_peer_name() -> dict[str, Row]:
    """The first row for each name of a peer, without the modules before it; what the library has comes first, and
    what is in no module before what is."""
    found: dict[str, Row] = {}
    have = [(name, row) for row in rows() for name in row.theirs if name and name not in OF_ARRAYS_ALONE]
    for name, row in sorted(have, key=lambda pair: (pair[1].section == MISSING, "." in pair[0])):
        found.setdefault(name.rpartition(".")[2], row)
    return found
