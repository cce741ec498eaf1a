"""Runs every kind of operator under every operation and compares it with its matrix, or a GPU's bits with the CPU's.

    python -m benchmarks.operator_sweep [--dtypes f32,c64] [--kinds TEXT] [--operations TEXT] [--device cuda]
        [--jobs 8] [--limit SECONDS] [--part 0/4] [--out DIR] [--known REPORT,...] [--joined]

Kinds and operations are those whose name has the TEXT, or one of several between commas; part 0/4 is every fourth
program; those that earlier reports call right are left out. Programs are dealt to processes (`benchmarks.dealing`),
operation by operation, so that what had no time is of all kinds. `--joined` has one program for operations that share
their work, and one for each of them where that fails. On a GPU, in f32 unless said, operations between
commas are one program, of those that a kind has what they need for, and `+` begins another; it gives the bits that it
gives on the CPU. The report goes to DIR/operator_sweep.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

from benchmarks.dealing import add_options, deal, report, run_share  # noqa: E402
from tests.support.operator_kinds import KINDS, NUMPY, Kind  # noqa: E402
from tests.support.operator_methods import METHODS  # noqa: E402
from tests.support.operator_sweep import GROUPS, NOT_ASKED, OPERATIONS, judged_of, lacks, outcome_of, together  # noqa: E402

Case = tuple[str, str, str]
ASKED = OPERATIONS | METHODS
BETWEEN = " | "
GOOD = ("right", "refused")


def main() -> None:
    options = _options()
    if options.inside is None:
        rows = deal("benchmarks.operator_sweep", options)
        report(rows, options.out / "operator_sweep.json", GOOD)
        return
    warnings.simplefilter("ignore")  # of NumPy, about matrices without an inverse
    run_share(cases(options), ", ".join, lambda case: _run_one(case, options.device), options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--operations", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--known", default="")
    parser.add_argument("--joined", action="store_true")
    add_options(parser, limit=3600.0)
    return parser.parse_args()


def cases(options: argparse.Namespace) -> list[Case]:
    dtypes = options.dtypes.split(",") if options.dtypes else (["f32"] if options.device != "cpu" else list(NUMPY))
    kinds, operations = _named(KINDS, options.kinds), _named(ASKED, options.operations)
    if options.device != "cpu":
        operations = options.operations.split("+")
    elif options.joined:
        operations = _joined(operations)
    every = [(kind, operation, dtype) for operation in operations for dtype in dtypes for kind in kinds]
    first, step = map(int, options.part.split("/"))
    known = {name for path in options.known.split(",") if path for name in _right(Path(path))}
    return [case for case in every[first::step] if ", ".join(case) not in known]


def _right(report: Path) -> list[str]:
    return [row["case"] for row in json.loads(report.read_text()) if row["outcome"] in GOOD]


def _named(table: dict[str, Any], text: str) -> list[str]:
    return [name for name in table if any(part in name for part in text.split(","))]


def _joined(operations: list[str]) -> list[str]:
    """The groups of operations, each as one name, and those of none."""
    groups = [[name for name in group if name in operations] for group in GROUPS]
    grouped = {name for group in groups for name in group}
    return [BETWEEN.join(group) for group in groups if group] + [name for name in operations if name not in grouped]


# --- in a process of its own ----------------------------------------------------------------------------------------


def _run_one(case: Case, device: str) -> dict[str, str]:
    try:
        code, problem = _on_cpu(case) if device == "cpu" else _on_both(case, device)
    except Exception:  # of NumPy's, or a fault of the compiler: the report has both
        return {"outcome": "fault", "problem": traceback.format_exc()[-900:]}
    return {"outcome": "wrong", "problem": problem} if problem else {"outcome": "refused" if code else "right"}


def _on_cpu(case: Case) -> tuple[str, str]:
    """The code of an error, and what is wrong."""
    kind, names, dtype = case
    asked = names.split(BETWEEN)
    right, problem = _together(KINDS[kind], asked, dtype)
    outcomes = {name: _of_one((kind, name, dtype)) for name in asked if name not in right}
    told = [f"{name}: {what}" for name, (_, what) in outcomes.items() if what]
    return next((code for code, _ in outcomes.values() if code), ""), "\n".join(told) or problem


def _together(kind: Kind, names: list[str], dtype: str) -> tuple[list[str], str]:
    """Which operations are right in one program of those that the kind has what they need for, and what is wrong."""
    able = [name for name in names if lacks(kind, ASKED[name], dtype) is None]
    if len(able) < 2:
        return [], ""
    code, found = outcome_of(kind, together(kind, [ASKED[name] for name in able], dtype), dtype)
    if code:
        return [], f"together: {found}"
    judged = {name: judged_of(kind, ASKED[name], dtype, "", one) for name, one in zip(able, found, strict=True)}
    problems = "".join(f"together, {name}: {problem}" for name, problem in judged.items() if problem)
    return [name for name, problem in judged.items() if not problem], problems


def _of_one(case: Case) -> tuple[str, str]:
    kind, operation, dtype = KINDS[case[0]], ASKED[case[1]], case[2]
    if lacks(kind, operation, dtype) in NOT_ASKED:
        return "", ""
    code, found = outcome_of(kind, operation, dtype)
    return code, judged_of(kind, operation, dtype, code, found)


def _on_both(case: Case, device: str) -> tuple[str, str]:
    kind_name, names, dtype = case
    kind = KINDS[kind_name]
    operation = together(kind, [ASKED[name] for name in names.split(",")], dtype)
    if not operation.text:
        return "", ""
    ours = outcome_of(kind, operation, dtype)
    return ours[0], _compared(ours, outcome_of(kind, operation, dtype, device))


def _compared(ours: tuple[str, Any], theirs: tuple[str, Any]) -> str:
    """How the outcome of a GPU differs from that of the CPU."""
    if ours[0] or theirs[0]:
        both = f"the CPU said {ours[0] or 'nothing'}, the GPU {theirs[0] or 'nothing'}: {theirs[1]}"
        return "" if ours[0] == theirs[0] else both
    pairs = zip(*(one if isinstance(one, tuple) else (one,) for one in (ours[1], theirs[1])), strict=True)
    hosts = [(np.asarray(a), np.asarray(b.numpy() if hasattr(b, "numpy") else b)) for a, b in pairs]
    equal = all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in hosts)
    return "" if equal else f"other bits: {hosts}"


if __name__ == "__main__":
    main()
