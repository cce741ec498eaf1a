"""Short rows of a CPU that need costly numbers of their own: a program has several, which are then lanes of a vector.

    one row per program                          several of them
    m = max of x[r, :]                           for r: m[r] = max of x[r, :]
    e = exp_int(m)         a number         ==>  e[:] = exp_int(m[:])              a vector of rows
    s = sum of exp_term(x[r, :], e)              for r: s[r] = sum of exp_term(x[r, :], e[r])
    y = log(s)                                   y[:] = log(s[:])

A logarithm takes as long for one row as for sixteen, and as long as forty elements of the row. Rows of which a program
has several are read once for each of its passes, so they are to stay in the first cache; of long ones the numbers are
little beside the elements.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.schedule.costs.cost import body_work
from tesserac.schedule.dialect import launch_kind, launch_loops
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.space import computing
from tesserac.schedule.model.uses import Passes

LONGEST, TOGETHER = 256, 16
"""Elements of a row up to which a program has several rows, and how many."""
COSTLY = 8
"""Work for a number of a row from which vectors of rows are worth what they take: to keep it between the loops."""


def rows_in_lanes(launch: Op, machine: Machine) -> int:
    """How many rows a program has."""
    *rows, fold = launch_loops(launch)
    length = fold.size.constant
    if launch_kind(launch) != "rows" or not rows or not length or length > LONGEST:
        return 1
    count = rows[-1].size.constant
    if count is not None and count < TOGETHER * machine.cores:
        return 1
    return TOGETHER if _work_of_rows(launch) >= COSTLY else 1


def _work_of_rows(launch: Op) -> int:
    has_fold = Passes(launch).has_fold
    return sum(body_work(op) for op in computing(launch) if op.name == "form.map" and not has_fold(op))
