"""Words of a command line become arguments of `main`: `--steps 10 --lr 0.1 --x data.npy`.

Enters: what `main` offers, and the words. Leaves: Python values by parameter. The declared types say how a word is
read; a bundle, which has no source, leaves that to the look of the word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

from tessera.interface import Computed, FunctionInterface, Missing, Parameter
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.commands.outcome import UsageMistake
from tesserac.syntax import ast
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import parse_module

ARRAY_SUFFIX = ".npy"
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True)
class MainSignature:
    """`main` of a file; its source is read only where arguments are given or wrong."""

    path: str
    interface: FunctionInterface

    @cached_property
    def declared(self) -> dict[str, str]:
        """The types of the parameters as they are written; none for a bundle."""
        if not self.path.endswith(".tess"):
            return {}
        source = read_source(self.path)
        if not isinstance(source, SourceFile):
            return {}
        functions = (i for i in parse_module(source).module.items if isinstance(i, ast.FunctionDef))
        main = next((f for f in functions if f.name == self.interface.name), None)
        written = main.parameters if main is not None else ()
        return {p.name: source.slice(p.annotation.span) for p in written if p.annotation is not None}

    def describe(self) -> str:
        """What can be given, one parameter per line."""
        if not self.interface.parameters:
            return "`main` takes no arguments"
        lines = [self._describe(p) for p in self.interface.parameters]
        return "`main` takes\n" + "\n".join(lines)

    def _describe(self, parameter: Parameter) -> str:
        name = f"--{parameter.name.replace('_', '-')}"
        kind = parameter.kind if isinstance(parameter.kind, str) else parameter.kind.kind
        type_ = self.declared.get(parameter.name, kind)
        given = isinstance(parameter.default, Missing)
        default = "computed" if isinstance(parameter.default, Computed) else parameter.default
        return f"  {name:16} {type_}{'' if given else f'  [default: {default}]'}"


def main_arguments(main: MainSignature, words: Sequence[str]) -> dict[str, object]:
    """Raises UsageMistake, which lists what `main` takes."""
    known = {p.name: p for p in main.interface.parameters}
    given: dict[str, object] = {}
    rest = list(words)
    while rest:
        name, text = _next_option(main, rest)
        if name not in known:
            raise _mistake(main, f"`main` has no parameter `{name}`")
        if name in given:
            raise _mistake(main, f"`{name}` is given twice")
        given[name] = _read(main, name, text)
    missing = [f"`{p.name}`" for p in known.values() if isinstance(p.default, Missing) and p.name not in given]
    if missing:
        raise _mistake(main, f"`main` also needs {', '.join(missing)}")
    return given


def _next_option(main: MainSignature, rest: list[str]) -> tuple[str, str]:
    """Takes `--name value` or `--name=value` off the words."""
    word = rest.pop(0)
    if not word.startswith("--") or word == "--":
        raise _mistake(main, f"`{word}` belongs to no parameter: write `--name {word}`")
    name, equals, text = word[2:].partition("=")
    if not equals:
        if not rest:
            raise _mistake(main, f"`{word}` needs a value")
        text = rest.pop(0)
    return name.replace("-", "_"), text


def _read(main: MainSignature, name: str, text: str) -> object:
    declared = main.declared.get(name, "").removesuffix("| None").strip()
    if text == "None" and declared != "str":
        return None
    if text.endswith(ARRAY_SUFFIX) and declared not in _READERS:
        return _array(main, name, text)
    reader = _READERS.get(declared, _guess if declared else _guess_or_text)
    try:
        return reader(text)
    except (ValueError, KeyError):
        hint = f", nor a file *{ARRAY_SUFFIX}" if declared not in _READERS else ""
        raise _mistake(main, f"`{text}` is no {declared}{hint}, which `{name}` takes") from None


def _guess(text: str) -> int | float | bool:
    """A number or a truth value; a name of something else is a mistake."""
    if text.lower() in ("true", "false"):
        return _TRUTH[text.lower()]
    try:
        return int(text.replace("_", ""), 0)
    except ValueError:
        return float(text)


def _guess_or_text(text: str) -> int | float | bool | str:
    try:
        return _guess(text)
    except ValueError:
        return text


_READERS: dict[str, Callable[[str], object]] = {
    "int": lambda text: int(text.replace("_", ""), 0),
    "float": float,
    "bool": lambda text: _TRUTH[text.lower()],
    "str": str,
}


def _array(main: MainSignature, name: str, path: str) -> object:
    import numpy as np

    try:
        return np.load(Path(path), allow_pickle=False)
    except FileNotFoundError:
        raise _mistake(main, f"there is no file `{path}` for `{name}`") from None
    except OSError as problem:
        raise _mistake(main, f"cannot read `{path}` for `{name}`: {problem.strerror}") from None
    except (ValueError, EOFError, BadZipFile):  # NumPy's words are about pickles, of which there are none here
        raise _mistake(main, f"`{path}` is no array of NumPy: `np.save` writes such files") from None


def _mistake(main: MainSignature, problem: str) -> UsageMistake:
    return UsageMistake(f"{problem}\n{main.describe()}")
