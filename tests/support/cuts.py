"""What a launch gives its kernel where it cuts a product, without compiling it."""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.ir.core import Op
from tesserac.schedule.model.cuts import COLUMNS, PARAMETERS, ROWS, block_rule, cut_of


def block_sizes(launch: Op, sizes: Mapping[str, int], threads: int) -> dict[str, int]:
    """The symbols of the kernel that are not of the program."""
    cut = cut_of(launch)
    if cut is None:
        return {}
    (first, most_first, unit_first), (second, most_second, unit_second) = cut.sides()
    leads, *sides = (dim.evaluate(dict(sizes)) for dim in (cut.leads, first, second))
    units = (dim.evaluate(dict(sizes)) for dim in (unit_first, unit_second))
    dealt = [threads * cut.turns if threads > 1 else threads, int(cut.square)]
    numbers = [leads, *sides, most_first, most_second, *units, *dealt]
    given = dict(zip(PARAMETERS, numbers, strict=True))
    names = (ROWS, COLUMNS) if cut.rows_first else (COLUMNS, ROWS)
    return {name: rule.evaluate(given) for name, rule in zip(names, block_rule(), strict=True)}
