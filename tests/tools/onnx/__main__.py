"""ONNX's node tests, each as a program of the library:

    python -m tests.tools.onnx [REPORT] [--only OPERATOR ...]

Writes for each operator how many of its cases have ONNX's results, and every case that has not, with the reason. Cases
whose name ends in `expanded` are the same again, taken apart, and left out. Needs the extra `peers`.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tessera
from tesserac.modules.library import load_library
from tests.tools.onnx import elementwise, images, layers, sequences, shapes, states
from tests.tools.onnx.node import FORMS, Node, NotInTheLanguage, dtype_name, plain

ROOMS = (elementwise, images, layers, sequences, shapes, states)


def cases() -> Iterator[tuple[Node, float, float]]:
    from onnx import helper
    from onnx.backend.test.loader import load_model_tests

    for case in load_model_tests(kind="node"):
        if "_expanded" in case.name:
            continue
        node = case.model.graph.node[0]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        attributes = {k: as_array(v) for k, v in attributes.items()}
        given, wanted = ([as_array(value) for value in part] for part in case.data_sets[0])
        left = iter(given)
        inputs = tuple(next(left, None) if name else None for name in node.input)
        yield Node(case.name, node.op_type, inputs, attributes, tuple(node.output), tuple(wanted)), case.rtol, case.atol


@cache
def every_case() -> list[tuple[Node, float, float]]:
    """All cases. Processes that are forked behind the first call share them: making them takes seconds."""
    return list(cases())


def as_array(value: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(value) if hasattr(value, "raw_data") else value


def program(node: Node) -> tuple[str, list[int]]:
    if node.op not in FORMS:
        raise NotInTheLanguage(f"no form of {node.op} is written")
    body = FORMS[node.op](node)
    used = sorted({int(i) for i in re.findall(r"\bx(\d+)\b", body)})
    typed = [f"x{i}: {type_text(node.inputs[i]) if node.has(i) else NO_INPUT}" for i in used]
    lines = body if body.startswith("    ") else f"    return {body}"
    return f"def main({', '.join(typed)}):\n{lines}\n", used


NO_INPUT = "Tensor[f32] | None = None"
"""The type of what a case leaves out."""


def type_text(value: Any) -> str:
    """The type of an input; a sequence is a tuple, and one that may be there is what it is."""
    if isinstance(value, (list, tuple)):
        return f"({''.join(f'{type_text(item)}, ' for item in value)})"
    if isinstance(value, bool):
        return "bool"
    return f"Tensor[{', '.join([*map(str, value.shape), dtype_name(value)])}]"


def given(value: Any) -> Any:
    """An input as a call takes it."""
    if isinstance(value, (list, tuple)):
        return tuple(map(given, value))
    return value if isinstance(value, bool) else plain(value)


def flat(found: Any) -> list[Any]:
    """Results one by one, those in sequences too."""
    return [one for item in found for one in flat(item)] if isinstance(found, (list, tuple)) else [found]


def verdict(node: Node, rtol: float, atol: float) -> str:
    """Nothing where the results are ONNX's."""
    text, used = program(node)
    found = flat(tessera.compile(text).main(*(given(node.inputs[i]) for i in used if node.has(i))))
    wanted = flat(node.results)
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    for ours, theirs in zip(found, wanted, strict=True):
        reason = difference(np.asarray(ours), plain(theirs), rtol, atol)
        if reason:
            return reason
    return ""


def difference(ours: Any, theirs: Any, rtol: float, atol: float) -> str:
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    if ours.dtype != theirs.dtype:
        return f"{ours.dtype}, not {theirs.dtype}"
    if theirs.dtype.kind in "biu" or "int" in str(theirs.dtype):
        return "" if np.array_equal(ours, theirs) else "other values"
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    # A narrow type may be off by a few of its last digits: ONNX rounds behind every step. A sum of large terms that
    # cancel is measured beside the largest result.
    rtol = max(rtol, 4 * float(ml_dtypes.finfo(theirs.dtype).eps))
    atol *= max(1.0, float(np.nanmax(np.abs(b), initial=0.0, where=np.isfinite(b))))
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    return f"differs by {np.nanmax(np.abs(a - b)):.1e}"


def tried(node: Node, rtol: float, atol: float) -> tuple[str, str]:
    """What became of a case, "equal", "not in the language" or "different", and why."""
    try:
        reason = verdict(node, rtol, atol)
    except NotInTheLanguage as outside:
        return "not in the language", str(outside)
    except Exception as error:  # a report must go on behind whatever one case does
        return "different", (str(error).strip() or type(error).__name__).splitlines()[0]
    return ("different", reason) if reason else ("equal", "")


def tried_at(place: int) -> tuple[str, str]:
    """The case of that number, which processes know each other's cases by."""
    return tried(*every_case()[place])


def report(outcomes: dict[str, list[tuple[str, str, str]]]) -> str:
    total = Counter(kind for rows in outcomes.values() for _, kind, _ in rows)
    count = sum(total.values())
    lines = [
        "# ONNX's node tests",
        "",
        "Made by `python -m tests.tools.onnx`: every case as a call of the library, within the tolerance",
        "that the case states (narrow floats: four units in the last place). "
        f"{total['equal']} of {count} are equal, {total['different']} different;",
        f"{total['not in the language']} are not in the language.",
        "",
        "| operator | cases | equal | what the others are |",
        "|---|---|---|---|",
    ]
    for op, rows in sorted(outcomes.items()):
        equal = sum(kind == "equal" for _, kind, _ in rows)
        reasons = Counter(
            why if kind != "different" else f"**{name[5:]}**: {why}" for name, kind, why in rows if kind != "equal"
        )
        told = "; ".join(f"{why} ({k})" if k > 1 else why for why, k in reasons.items()).replace("|", "\\|")
        lines.append(f"| {op} | {len(rows)} | {equal} | {told} |")
    return "\n".join([*lines, *_reasons(outcomes)]) + "\n"


def _reasons(outcomes: dict[str, list[tuple[str, str, str]]]) -> list[str]:
    """How many cases each reason is of, over all operators."""
    found = Counter(why for rows in outcomes.values() for _, kind, why in rows if kind == "not in the language")
    rows = [f"| {why} | {count} |" for why, count in found.most_common()]
    return ["", "| what is not in the language | cases |", "|---|---|", *rows] if rows else []


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("report", nargs="?", type=Path)
    options.add_argument("--only", nargs="*", default=[])
    options.add_argument("--show", action="store_true", help="print the programs of cases that differ")
    asked = options.parse_args()
    warnings.filterwarnings("ignore")
    outcomes: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    nodes = [node for node, _, _ in every_case()]
    places = [i for i, node in enumerate(nodes) if not asked.only or node.op in asked.only]
    load_library()  # once, for all processes that are forked behind it
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for place, (kind, why) in zip(places, pool.map(tried_at, places), strict=True):
            node = nodes[place]
            outcomes[node.op].append((node.name, kind, why))
            if asked.report:  # what was found stays, if the rest is not waited for
                asked.report.write_text(report(outcomes))
            if asked.show and kind == "different":
                print(node.name, why, program(node)[0], sep="\n", flush=True)
    print(report(outcomes))
    return int(any(kind == "different" for rows in outcomes.values() for _, kind, _ in rows))


if __name__ == "__main__":
    raise SystemExit(main())
