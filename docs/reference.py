"""The operator reference: every name that a program can call, from the registry and the library's own doc strings.

Leaves: an index, and one page for each family of operators and each module of the library.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import tesserac.ops  # noqa: F401  (fills the registry)
from docs.canonical import canonical_table
from tesserac.base.resources import stdlib_files
from tesserac.base.source import SourceFile
from tesserac.check.model.library_annotations import other_names
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.check.names.refs import ALGEBRA, CONSTRUCTORS
from tesserac.ops.registry import OPERATORS, Operator
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module

HEAD = """# Operators and library functions

Every name that a program has without importing it. Operators are classes of `tesserac/ops`; all other functions are
written in Tessera, in `stdlib`. Each is also a method of its first argument (`x.sum(axis=N)`) and an attribute of `op`.
Every example here is compiled and run by the tests, and gives the bits of the interpreter.

The signatures of operators are those that the checker reads. An element is a class of dtypes: `N` numbers, `F` floats,
`I` integers, `L` bools and integers, `R` real numbers, `V` numbers and bools, `E` anything; `acc(V)` is what sums of it
give, `dot(N)` what products give, `wide(E)` its accumulation type. A dim is a variable, `*s` any number of equal dims,
`s...` any number that broadcast, `{dims}` what the text says. A parameter without brackets is known while compiling; an
axis is a position or the name of a dim.

A derivative is the change of the result for a change `dx` of the operand x. An operator that is linear changes as its
operands do. A step has the derivative 0, at its jumps as well. Gradients of complex numbers are those of JAX: nothing
is conjugated, so that the gradient of a real f at x + iy is df/dx - i df/dy.
"""

LANGUAGE = "The language itself"
OPERATIONS = "Operators"
INDEX = "[All names](../operators.md), and how to read the signatures."


@dataclass(frozen=True)
class Entry:
    name: str
    signatures: tuple[str, ...]
    doc: str
    derivative: str = ""
    others: str = ""
    """What other libraries call its parameters."""

    def text(self) -> str:
        words, _, example = inspect.cleandoc(self.doc).partition("\ndef ")
        shown = "\n".join(f"    {line}" for signature in self.signatures for line in signature.splitlines())
        code = f"\n```tess\ndef {example.rstrip()}\n```\n" if example else ""
        slope = f"\n{self.derivative}\n" if self.derivative else ""
        others = f"\nAlso: {self.others}.\n" if self.others else ""
        return f"## {self.name}\n\n{shown}\n\n{words.strip()}\n{code}{slope}{others}"


@dataclass(frozen=True)
class Section:
    """`group` is what its page stands under, `title` what it is called there."""

    group: str
    title: str
    words: str
    entries: tuple[Entry, ...]

    @property
    def file(self) -> str:
        folder = {LANGUAGE: "", OPERATIONS: "ops-"}.get(self.group, f"{self.group}-")
        return f"{folder}{self.title.lower().replace(' ', '-')}.md"

    def text(self) -> str:
        entries = "\n".join(entry.text() for entry in self.entries)
        heading = self.title if self.group in (LANGUAGE, OPERATIONS) else f"{self.group}/{self.title}"
        return f"# {heading}\n\n{self.words}\n\n{INDEX}\n\n{entries}"

    def listed(self) -> str:
        names = " ".join(f"[{entry.name}](operators/{self.file}#{_anchor(entry.name)})" for entry in self.entries)
        return f"- **[{self.title}](operators/{self.file})**: {names}"


def reference() -> dict[str, str]:
    """The pages by their paths."""
    found = sections()
    parts = []
    for group, members in groupby(found, key=lambda section: section.group):
        parts += [f"## {group}\n", *(section.listed() for section in members), ""]
    names = sum(len(section.entries) for section in found)
    index = "\n".join([HEAD, f"{names} names.\n", canonical_table(), *parts])
    return {"operators.md": index} | {f"operators/{section.file}": section.text() for section in found}


def sections() -> list[Section]:
    found = [language_section(), *operator_sections(), *library_sections()]
    return [section for section in found if section.entries]


def language_section() -> Section:
    words = "What the checker itself knows: loops, functions of functions, operators as values."
    entries = [
        Entry(_as_written(name), (doc.usage,), doc.text) for name, doc in sorted(BUILTIN_DOCS.items())
    ]
    return Section(LANGUAGE, LANGUAGE, words, tuple(entries))


def _as_written(name: str) -> str:
    """What stands for operators after `op.` alone keeps that; it is a function of tensors, or nothing, without it."""
    bare = name.removeprefix(ALGEBRA)
    return name if bare in CONSTRUCTORS else bare


def operator_sections() -> Iterator[Section]:
    """Those that a program has by their name. The library says more of one with a function around it, which has more
    options."""
    modules = dict.fromkeys(cls.__module__ for cls in OPERATORS.values())
    around = {entry.name for section in library_sections() for entry in section.entries}
    for module in modules:
        found = [cls for cls in OPERATORS.values() if cls.__module__ == module and cls.surface]
        entries = [_operator_entry(cls) for cls in found if cls.name not in around]
        title = module.rpartition(".")[2].capitalize()
        yield Section(OPERATIONS, title, _first_paragraph(sys.modules[module].__doc__), tuple(entries))


def _operator_entry(cls: type[Operator]) -> Entry:
    shown = tuple(f"{cls.name}{text}" for text in cls.signatures)
    return Entry(cls.name, shown, cls.__doc__ or "", _derivative(cls), _others(cls.others))


def _others(names: Mapping[str, tuple[str, ...]]) -> str:
    """`kernel_size=` for `size=`."""
    listed = ((", ".join(f"`{other}=`" for other in others), name) for name, others in names.items())
    return "; ".join(f"{others} for `{name}=`" for others, name in listed)


def _derivative(cls: type[Operator]) -> str:
    """How tangents go through an operator, in one sentence; nothing for one that has none."""
    if cls.linear:
        return "Linear." if cls.linear == "jointly" else "Linear in each operand."
    if cls.not_differentiable:
        return f"No derivative: {cls.not_differentiable}."
    if cls.differential:
        return "Derivative: 0." if cls.differential == "0" else f"Derivative: `{cls.differential}`."
    if cls.derivative is Operator.derivative:
        return ""
    words = _first_paragraph(cls.derivative.__doc__)
    assert words, f"the derivative of {cls.name} has no words"
    return f"Derivative: {words}"


def library_sections() -> Iterator[Section]:
    for path, text in stdlib_files().items():
        module = parse_module(SourceFile(path, text)).module
        entries = [_entry(item, text) for item in module.items if _is_public(item)]
        entries += [entry for item in module.items for entry in _aliases(item)]
        folder, _, name = path.removesuffix(".tess").partition("/")
        yield Section(folder, name, _first_paragraph(module.doc), tuple(entries))


def _is_public(item: ast.Item) -> bool:
    return isinstance(item, ast.FunctionDef | ast.StructDef) and not item.name.startswith("_")


def _entry(item: ast.Item, text: str) -> Entry:
    assert isinstance(item, ast.FunctionDef | ast.StructDef)
    word = "def" if isinstance(item, ast.FunctionDef) else "struct"
    head = re.search(rf"^{word} {item.name}\b(.*?):\n", text, re.MULTILINE | re.DOTALL)
    assert head is not None, f"{item.name} stands somewhere else than its text"
    others = _others(other_names(item)) if isinstance(item, ast.FunctionDef) else ""
    shown = f"{'' if word == 'def' else 'struct '}{item.name}{head[1]}"
    return Entry(item.name, (shown,), item.doc or "", others=others)


def _aliases(item: ast.Item) -> Iterator[Entry]:
    """`rope = rotary_embedding`: another name of what has a name."""
    match item:
        case ast.ConstDef(targets=[ast.Name(id=name)], value=ast.Name(id=of)) if not name.startswith("_"):
            yield Entry(name, (f"{name} = {of}",), f"Another name of `{of}`.")


def _first_paragraph(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").partition("\n\n")[0]


def _anchor(name: str) -> str:
    return name.lower().replace(".", "")
