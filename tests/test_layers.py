"""The house's order: data walks one way, imports point back. Held over the source text."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tesserac.ops.registry import OPERATORS
from tests.support.folding import folded
from tests.support.paths import ROOT
from tests.tools.operator_size import OTHER_NAMES, code_says, said_in, shown, sources

LAYERS: tuple[tuple[str, ...], ...] = (
    ("base",),
    ("diag",),
    ("types",),
    ("numerics", "porting"),
    ("syntax", "ir"),
    ("ops",),
    ("check",),
    ("graph",),
    ("schedule",),
    ("tile",),
    ("target",),
    ("tune",),
    ("project",),
    ("pipeline", "entry", "incremental"),
    ("modules",),
    ("driver",),
    ("embed", "commands"),
    ("repl",),
    ("cli",),
)
ROOMS: dict[str, tuple[str, ...]] = {
    "check": (
        *("model", "names", "sizes", "state", "guards", "provenance", "values", "declarations", "analysis"),
        *("operators", "instances", "places", "devices", "transforms", "kernels", "calls", "algebra", "expressions"),
        *("statements", "module"),
    ),
    "schedule": (
        *("model", "costs", "forms primitives", "rows", "fusion", "host", "products", "maps", "chains", "programs"),
        "loops",
    ),
    "tile": ("launches", "cpu", "programs", "gpu"),
    "tile/gpu": ("model", "layouts", "rows", "kernels", "products"),
    "target": ("entry", "cpu", "nvptx"),
    "target/cpu": ("pool", "elements", "indexed", "products", "host", "call"),
    "target/nvptx": ("registers", "memory", "products", "rows", "host"),
}
"""The rooms inside a room, lowest first; two in one string may import each other (a primitive rewrites forms, and views
are folded by one). What lies beside the rooms is the way in, or what all of them speak of."""
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}

COMPILER_FILES = sorted((ROOT / "tesserac").rglob("*.py"))
RUNTIME_FILES = sorted((ROOT / "runtime").rglob("*.py"))
EDITOR_FILES = sorted((ROOT / "lsp").rglob("*.py"))


@cache
def imports(path: Path) -> list[tuple[ast.AST, str, bool]]:
    """Every imported module of a file, with whether the import stands at module level."""
    return list(_imports(ast.parse(path.read_text(encoding="utf-8")).body, at_top=True))


def _imports(statements: Sequence[ast.AST], at_top: bool) -> Iterator[tuple[ast.AST, str, bool]]:
    for node in statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, at_top
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "", at_top
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            if isinstance(inner := getattr(node, part, None), list):  # a lambda's body is an expression
                yield from _imports(inner, at_top=False)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "tesserac").parts[0].removesuffix(".py")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@folded("path", COMPILER_FILES, ids=name)
def test_imports_point_back(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    assert room in RANK, f"{room} has no place in the order"
    for _, module, _ in imports(path):
        parts = module.split(".")
        if parts[0] != "tesserac" or len(parts) < 2 or parts[1] == room:
            continue
        assert RANK[parts[1]] < RANK[room], f"{room} must not import {module}"


@pytest.mark.parametrize("outer", ROOMS)
def test_rooms_inside_a_room_point_back(outer: str) -> None:
    rank = {room: place for place, rooms in enumerate(ROOMS[outer]) for room in rooms.split()}
    folder, package = ROOT / "tesserac" / outer, ["tesserac", *outer.split("/")]
    found = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert found == set(rank), f"rooms of {outer} without a place: {found ^ set(rank)}"
    for room in rank:
        for path in sorted((folder / room).rglob("*.py")):
            for _, module, _ in imports(path):
                parts = module.split(".")
                if parts[: len(package)] == package and len(parts) > len(package) + 1:
                    other = parts[len(package)]
                    assert rank[other] <= rank[room], f"{name(path)} must not import {module}"


def test_the_compiler_is_no_circle_with_the_runtime() -> None:
    """`import tessera` leads to the compiler, which takes of the runtime what does not lead back."""
    for path in COMPILER_FILES:
        if room_of(path) in ("repl", "cli", "commands"):
            continue
        for node, module, _ in imports(path):
            names = {alias.name for alias in names_of(node)} if module == "tessera" else set()
            whole = [word for word in names if not (ROOT / "runtime" / "tessera" / f"{word}.py").exists()]
            assert not whole and module != "tessera.loading", f"{name(path)} would come back to itself"


@folded("path", COMPILER_FILES, ids=name)
def test_dataclasses_are_made_by_one_decorator(path: Path) -> None:
    """See Note [Why not the standard one] in `base/dataclass.py`."""
    taken = [alias.name for node, module, _ in imports(path) if module == "dataclasses" for alias in names_of(node)]
    assert "dataclass" not in taken, "write `from tesserac.base.dataclass import dataclass`"


def names_of(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.ImportFrom) else []


def test_checking_needs_no_arrays() -> None:
    """What `tesserac check` imports leaves NumPy alone: it would take a quarter of the time of a small file."""
    program = "import sys, tesserac.driver.check_cache; sys.exit('numpy' in sys.modules or 'ml_dtypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@folded("path", COMPILER_FILES, ids=name)
def test_only_target_imports_llvmlite(path: Path) -> None:
    used = {module.split(".")[0] for _, module, _ in imports(path)}
    assert "llvmlite" not in used or room_of(path) == "target"
    assert "pygls" not in used


@folded("path", RUNTIME_FILES, ids=name)
def test_the_runtime_stands_alone(path: Path) -> None:
    for _, module, at_top in imports(path):
        package = module.split(".")[0]
        assert package != "llvmlite"
        assert package != "tesserac" or not at_top, "the compiler is imported inside a function, on demand"


def test_one_file_knows_the_driver_of_gpus() -> None:
    knowing = [name(path) for path in (*COMPILER_FILES, *RUNTIME_FILES) if '"cuMem' in path.read_text(encoding="utf-8")]
    assert knowing == ["runtime/tessera/cuda_driver.py"]


@folded("path", EDITOR_FILES, ids=name)
def test_features_know_no_protocol(path: Path) -> None:
    """Only the wiring speaks it. The first answer to an editor does not wait for the compiler."""
    used = [(module.split("."), at_top) for _, module, at_top in imports(path)]
    packages = {parts[0] for parts, _ in used}
    assert "llvmlite" not in packages
    if "features" in path.parts:
        assert not packages & {"pygls", "lsprotocol"}
    if path.name == "server.py":
        assert all(parts[1] == "base" for parts, at_top in used if parts[0] == "tesserac" and at_top and len(parts) > 1)


@folded("path", [*COMPILER_FILES, *RUNTIME_FILES], ids=name)
def test_only_a_command_knows_the_editor(path: Path) -> None:
    known = [at_top for _, module, at_top in imports(path) if module.split(".")[0] == "tessera_lsp"]
    assert not known or (path == ROOT / "tesserac" / "cli.py" and not any(known))
    assert not {module.split(".")[0] for _, module, _ in imports(path)} & {"pygls", "lsprotocol"}


@folded("path", [*COMPILER_FILES, *RUNTIME_FILES, *EDITOR_FILES], ids=name)
def test_only_the_commands_talk_to_people(path: Path) -> None:
    if name(path) in ("tesserac/cli.py", "tesserac/repl/console.py"):
        return
    text = path.read_text(encoding="utf-8")
    if not re.search(r"\b(print|exit|quit|input)\(", text):
        return
    for node in ast.walk(ast.parse(text)):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        assert called not in ("print", "exit", "quit", "input"), f"{called}() at line {getattr(node, 'lineno', 0)}"


def test_only_rules_name_a_composite_function() -> None:
    """Softmax stands for all of them: the library says what there is to know of its functions itself
    (`check/model/library_annotations.py`). A table says what functions of that name are in other libraries."""
    named = {shown(path) for path in sources() if code_says(path, "softmax")}
    assert named <= {"tesserac/graph/rules.py", "tesserac/check/names/foreign_forms.py"}


AFTER_GRAPH = ("schedule", "tile", "target")
OF_LOWER_LEVELS = {"bitcast", "scatter", "split", "full", "empty", "minimum", "maximum", "cast", "operator"}
"""A form, a primitive of schedules, two barriers, intrinsics of LLVM, what an assertion is told of: what is called as
an operator is."""


def test_nothing_after_graph_names_an_operator() -> None:
    """Names stop at Graph IR: behind it no class of an operator is imported, and nothing is asked by its name. Names
    that a scalar primitive, a fold or a view has too stand there for these."""
    classes = {operator.__name__ for operator in OPERATORS.values()}
    names = set(OPERATORS) - OTHER_NAMES - OF_LOWER_LEVELS
    for path in (path for room in AFTER_GRAPH for path in sorted((ROOT / "tesserac" / room).rglob("*.py"))):
        taken, strings = said_in(path)
        assert not taken & classes, f"{name(path)} knows {taken & classes}"
        assert not [text for text in strings if text.startswith("graph.")], f"{name(path)} writes Graph"
        assert not strings & names, f"{name(path)} asks for {strings & names}"


def test_schedules_ask_what_a_machine_can_do() -> None:
    """Not which kind it is: a machine of another kind says what it can as fields."""
    for path in sorted((ROOT / "tesserac" / "schedule").rglob("*.py")):
        assert not re.search(r"machine\.kind\s*(==|!=|in\b)", path.read_text(encoding="utf-8")), name(path)


LONGEST = 450


def test_no_file_is_long() -> None:
    """A file is read in one go. What grows longer has parts."""
    others = [path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    files = (*COMPILER_FILES, *RUNTIME_FILES, *EDITOR_FILES, *others)
    lines = {name(path): path.read_text(encoding="utf-8").count("\n") for path in files}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}
