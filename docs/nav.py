"""What the site shows, in the order of its menu. Every page stands here or is listed by one that does."""

from __future__ import annotations

from itertools import groupby

from docs.reference import LANGUAGE, OPERATIONS, Section

Nav = list["str | dict[str, str | Nav]"]

LESSONS = (
    ("1. First program", "learn/01-first-program.md"),
    ("2. Shapes", "learn/02-shapes.md"),
    ("3. Precision", "learn/03-precision.md"),
    ("4. Structs and models", "learn/04-structs.md"),
    ("5. Gradients", "learn/05-gradients.md"),
    ("6. Training", "learn/06-training.md"),
    ("7. Kernels", "learn/07-kernels.md"),
    ("8. Operators", "learn/08-operators.md"),
    ("9. GPU", "learn/09-gpu.md"),
    ("10. Embedding and deployment", "learn/10-embedding.md"),
)
GUIDES = (
    ("Examples", "examples.md"),
    ("Dims: proved, checked, why", "dims.md"),
    ("dtypes and policies", "dtypes.md"),
    ("Derivatives", "differentiation.md"),
    ("Transforms", "transforms.md"),
    ("Training", "training.md"),
    ("Training from the command line", "training-command.md"),
    ("What derivatives keep", "checkpoints.md"),
    ("Kernels", "kernels.md"),
    ("Operators as values", "algebra.md"),
    ("Linear algebra by its laws", "rewriting.md"),
    ("Linear algebra", "linalg.md"),
    ("Random numbers", "random.md"),
    ("Collectives", "collectives.md"),
    ("What runs where", "where.md"),
    ("From Python", "embedding.md"),
    ("GPUs", "gpu.md"),
    ("The memory model of GPUs", "gpu-memory-model.md"),
    ("Modules and projects", "modules.md"),
    ("Testing", "testing.md"),
    ("Watching a run", "tracing.md"),
    ("The prompt", "repl.md"),
    ("Editors", "editor.md"),
    ("From PyTorch and JAX", "porting.md"),
    ("Fixes", "fixes.md"),
    ("Security", "security.md"),
)
REFERENCE = (
    ("The language", "language.md"),
    ("The command line", "commands.md"),
    ("The Python module", "python.md"),
    ("Machines", "machines.md"),
    ("Names of other libraries", "equivalents.md"),
    ("Errors and warnings", "errors.md"),
)
INTERNALS = (
    ("Architecture", "architecture.md"),
    ("One function, every level", "softmax.md"),
    ("The IR, level by level", "ir.md"),
    ("CPU kernels", "cpu.md"),
    ("From object file to call", "runtime.md"),
    ("Glossary", "glossary.md"),
    ("Contributing", "contribute.md"),
    ("Recipes", "contributing.md"),
)


def navigation(sections: list[Section], pages: set[str]) -> Nav:
    """The menu; what others have not written yet is left out."""
    operators: Nav = ["operators.md", *_operators(sections)]
    return [
        {"Tessera": "index.md"},
        {"Learn": ["learn/index.md", *_entries(LESSONS, pages)]},
        {"Guides": _entries(GUIDES, pages)},
        {"Reference": [*_entries(REFERENCE, pages), {"Operators and library": operators}]},
        {"Internals": _entries(INTERNALS, pages)},
        {"Performance": "performance.md"},
        {"Numerics": "numerics.md"},
        {"Changelog": "changelog.md"},
    ]


def _entries(listed: tuple[tuple[str, str], ...], pages: set[str]) -> Nav:
    return [{title: path} for title, path in listed if path in pages]


def _operators(sections: list[Section]) -> Nav:
    found: Nav = []
    for group, members in groupby(sections, key=lambda section: section.group):
        pages: Nav = [{section.title: f"operators/{section.file}"} for section in members]
        found += pages if group == LANGUAGE else [{group if group != OPERATIONS else "Operators": pages}]
    return found


def paths(nav: Nav) -> list[str]:
    """All pages of a menu."""
    found: list[str] = []
    for entry in nav:
        for value in [entry] if isinstance(entry, str) else entry.values():
            found += [value] if isinstance(value, str) else paths(value)
    return found
