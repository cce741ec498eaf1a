"""How much an operator costs in the source: `python -m tests.tools.operator_size`.

Prints the lines of Python per operator of the registry (the file that holds its class, without the docstrings that
are its documentation, over the classes in it), the functions of the library in `.tess`, and for every operator the
files of the compiler that name it. One operator is one place: a name in a second file needs a reason.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tesserac.ops  # noqa: F401  (fills the registry)
from tesserac.base.resources import stdlib_files
from tesserac.ir.forms import REDUCE_KINDS
from tesserac.ops.registry import OPERATORS
from tesserac.ops.scalar import PRIMITIVES

ROOT = Path(__file__).resolve().parents[2]
COMPILER = ("tesserac", "runtime", "lsp")
KNOW_OPERATORS = ("syntax", "check", "graph", "incremental", "repl", "commands", "tessera_lsp")
"""Rooms that may know operators by name; behind the Graph there are none."""
OTHER_NAMES = frozenset({*REDUCE_KINDS, *PRIMITIVES, "slice", "permute", "expand", "equal", "where", "complex"})
"""Operators that are called as something else is, a fold, a scalar primitive, a view, a guard or a word of the grammar:
a string may mean either."""


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    documentation = {line for node in ast.walk(ast.parse(text)) for line in _docstring_lines(node)}
    rows = enumerate(text.splitlines(), 1)
    return sum(bool(row.strip()) and not row.lstrip().startswith("#") and n not in documentation for n, row in rows)


def _docstring_lines(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def sources() -> Iterator[Path]:
    for folder in COMPILER:
        yield from sorted((ROOT / folder).rglob("*.py"))


def files_that_name(name: str) -> list[str]:
    """The file that defines an operator and those that import its class, look for it in the Graph or write its name."""
    cls = OPERATORS[name]
    home = Path(inspect.getfile(cls))
    return [shown(home), *(shown(path) for path in sources() if path != home and _names(path, cls.__name__, name))]


def _names(path: Path, cls: str, name: str) -> bool:
    imports, strings = said_in(path)
    room = path.relative_to(ROOT).parts[1]
    written = room in KNOW_OPERATORS and name not in OTHER_NAMES and name in strings
    return cls in imports or f"graph.{name}" in strings or written


@cache
def said_in(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The operators' classes that a file imports, and the strings in its code."""
    nodes = list(ast.walk(_tree(path)))
    classes = [node for node in nodes if isinstance(node, ast.ImportFrom) and "tesserac.ops" in (node.module or "")]
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return frozenset(alias.name for node in classes for alias in node.names), frozenset(strings)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def code_says(path: Path, word: str) -> bool:
    """Whether a word stands in the code of a file: in a name or a string, not in a comment or a docstring."""
    if word not in path.read_text(encoding="utf-8").lower():
        return False
    documentation = {id(node.value) for node in ast.walk(_tree(path)) if isinstance(node, ast.Expr)}
    for node in ast.walk(_tree(path)):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documentation else None
        names = [getattr(node, part, None) for part in ("id", "attr", "name", "arg")]
        if any(isinstance(found, str) and word in found.lower() for found in (text, *names)):
            return True
    return False


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def library_functions() -> int:
    return sum(len(re.findall(r"^def [a-z]\w*", text, re.MULTILINE)) for text in stdlib_files().values())


def main() -> None:
    files = Counter(Path(inspect.getfile(cls)) for cls in OPERATORS.values())
    lines = {path: code_lines(path) for path in files}
    print(f"{'file':40} operators  lines  lines/operator")
    for path, count in sorted(files.items(), key=lambda item: lines[item[0]] / item[1]):
        print(f"{path.relative_to(ROOT)!s:40} {count:9}  {lines[path]:5}  {lines[path] / count:14.1f}")
    total, count = sum(lines.values()), len(OPERATORS)
    print(f"{'all':40} {count:9}  {total:5}  {total / count:14.1f}")
    functions = library_functions()
    print(f"\nfunctions of the library in .tess: {functions}; names that a program can call: {functions + count}")
    print(f"lines of Python per name: {total / (functions + count):.1f}\n")
    named = {name: files_that_name(name) for name in OPERATORS}
    for amount, names in sorted(Counter(len(found) for found in named.values()).items()):
        print(f"named in {amount} file{'s' if amount > 1 else ''}: {names} operators")
    for name, found in named.items():
        if len(found) > 3:
            print(f"  {name}: {', '.join(found)}")
    softmax = [shown(path) for path in sources() if code_says(path, "softmax")]
    print(f"\nPython files of the compiler that name softmax: {', '.join(softmax) or 'none'}")


if __name__ == "__main__":
    main()
