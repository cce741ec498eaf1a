"""One library on the functions of `operator_cases.py`, alone in its process: `python operator_peers.py LIBRARY THREADS`
prints a name and the seconds of a call, the least of many, for each; names behind it are those that are wanted. With
`-` it reads names, one a line, and answers each before it reads the next, so that two libraries take turns. It imports
nothing of the project but for `tessera`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.operator_cases import CASES
from benchmarks.operator_inputs import Case, array, parameter

SECONDS, LEAST = 0.12, 3


def tessera_call(case: Case, threads: int) -> Callable[[], Any]:
    import tessera

    tessera.set_num_threads(threads)
    names = case.inputs.split()
    text = f"def f({', '.join(map(parameter, names))}): return {case.ours}\n"
    function, inputs = tessera.compile(text).f, [array(name) for name in names]
    return lambda: function(*inputs)


def torch_call(case: Case, threads: int) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    names = case.inputs.split()
    from benchmarks import operator_written  # needs PyTorch

    known = {"torch": torch, "F": torch.nn.functional, **vars(operator_written)}
    made = eval(f"lambda {', '.join(names)}: {case.theirs}", known)
    inputs = [torch.from_numpy(array(name)) for name in names]
    return lambda: made(*inputs)


def best_time(call: Callable[[], Any], threads: int) -> float:
    """On one thread it is the time of the processor, which others that use the machine change least."""
    clock = time.process_time if threads == 1 else time.perf_counter
    call()
    best, count, until = float("inf"), 0, time.perf_counter() + SECONDS
    while count < LEAST or time.perf_counter() < until:
        start = clock()
        call()
        best, count = min(best, clock() - start), count + 1
    return best


def answer(case: Case, call: Callable[[], Any] | None, library: str, threads: int) -> Callable[[], Any] | None:
    """Prints the figure of a case; leaves its call, to be asked for again."""
    try:
        call = call or MAKE[library](case, threads)
        print(f"{case.name}\t{best_time(call, threads):.9f}", flush=True)
    except Exception as error:  # one that fails leaves the others their figures
        print(f"{case.name}\tnan\t{type(error).__name__}: {str(error)[:300]!r}", flush=True)
    return call


def take_turns(library: str, threads: int) -> None:
    cases = {case.name: case for case in CASES}
    name, call = "", None
    for line in sys.stdin:
        wanted = line.rstrip("\n")
        call = answer(cases[wanted], call if wanted == name else None, library, threads)
        name = wanted


def main(library: str, threads: int, names: list[str]) -> None:
    if names == ["-"]:
        take_turns(library, threads)
        return
    for case in CASES:
        if not names or case.name in names:
            answer(case, None, library, threads)


MAKE = {"tessera": tessera_call, "torch": torch_call}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
