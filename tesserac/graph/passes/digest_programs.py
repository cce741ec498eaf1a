"""Every kernel gets the digest of its program, by which the schedules are found that tuning has found for it.

Enters: a module whose functions have no calls but of kernels, with the sizes that the program has. Leaves: the same
with an attribute at each kernel. Names and places in the text do not count, types, policies and constants do.
"""

from __future__ import annotations

import hashlib

from tesserac.graph.dialect import DIGEST, program_of
from tesserac.ir.core import Module, Op, clone_op
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.printer import print_module


@pass_(GRAPH, GRAPH, "digest_programs")
def digest_programs(module: Module) -> Module:
    for function in module.ops:
        program = program_of(function)
        if program is not None:
            function.attrs[DIGEST] = program_digest(module.lookup(program.symbol))
    return module


def program_digest(function: Op) -> str:
    copy = clone_op(function, {})
    copy.attrs["sym_name"] = "program"
    return hashlib.sha256(print_module(Module([copy])).encode()).hexdigest()[:24]
