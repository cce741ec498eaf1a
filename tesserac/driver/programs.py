"""Programs of a caller beside the one that is compiled: functions of theirs stand in arguments of a call of it.

Enters: the compile-time choices of a call, which name functions by the key of their program. Leaves: the program that
is compiled, checked once more with those programs in sight. Its text cannot name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tessera.errors import UNREADABLE_FILE, failure
from tessera.interface import OF_FUNCTION, Choice, Specialization, Tree
from tessera.programs import BUILT_IN, MAIN, known_program, name_elsewhere, suffix
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, Imported, unchecked_module
from tesserac.check.model.typed import TypedFunction
from tesserac.check.names.resolve import ImportPath
from tesserac.diag.check_record import Reads
from tesserac.entry.specialize import FindModule
from tesserac.modules.imports import Importer
from tesserac.modules.library import Library
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module

Imports = Callable[[ast.Module, str], tuple[dict[ImportPath, Imported], Reads]]


class Programs:
    """Those that calls have come to, each once. What is checked in sight of them is kept for the latest source."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: dict[str, CheckResult] = {}
        self._source: SourceFile | None = None
        self._beside: dict[frozenset[str], CheckResult] = {}
        self._made: dict[str, CheckResult] = {}

    def sources(self) -> dict[str, SourceFile]:
        return {path: file for known in self._known.values() for path, file in known.checker.sources().items()}

    def beside(
        self, source: SourceFile, own: CheckResult, chosen: Specialization, imports: Imports
    ) -> tuple[CheckResult, FindModule]:
        """The program with those in sight whose functions the choices have, and where modules of each are found."""
        keys = frozenset(key for _, choice in chosen for key in _keys(choice))
        others = frozenset(key for key in keys if not _is(key, source))
        result = self._with(source, others, imports) if others else own
        modules = {checker.name: checker for checker in result.checker.imported()}
        return result, lambda key, module: modules[name_elsewhere(module, key) if key in others else module]

    def made(self, source: SourceFile, function: TypedFunction, result: CheckResult) -> None:
        """Remembers where an instance is of that was made in sight of other programs."""
        if source == self._source:
            self._made[function.symbol] = result

    def result_of(self, source: SourceFile, function: TypedFunction) -> CheckResult | None:
        return self._made.get(function.symbol) if source == self._source else None

    def _with(self, source: SourceFile, keys: frozenset[str], imports: Imports) -> CheckResult:
        if source != self._source:
            self._source, self._beside, self._made = source, {}, {}
        if keys not in self._beside:
            module = parse_module(source).module
            found: dict[ImportPath, Imported] = dict(imports(module, source.path)[0])
            found |= {(0, (key,)): self._program(key) for key in sorted(keys)}
            self._beside[keys] = unchecked_module(module, source, MAIN, self._library, found, "")
        return self._beside[keys]

    def _program(self, key: str) -> CheckResult:
        """A program as others see it: it was checked when it was loaded."""
        if key not in self._known:
            source, reads = known_program(key).origin
            file = SourceFile(f"{source.path}{suffix(key)}", source.text)
            module, name = parse_module(file).module, MAIN + suffix(key)
            importer = Importer(self._library, frozenset({MAIN}), suffix=suffix(key))
            imports, read = importer.imports_of(module, source.path)
            if not set(read) <= set(reads):
                raise failure(UNREADABLE_FILE, f"what `{source.path}` imports has changed since it was loaded")
            self._known[key] = unchecked_module(module, file, name, self._library, imports, f"{name}.")
        return self._known[key]


def _is(key: str, source: SourceFile) -> bool:
    own = known_program(key).origin.source
    return (own.path, own.text) == (source.path, source.text)


def _keys(choice: Choice) -> Iterator[str]:
    """The programs that functions among the choices are of."""
    if not isinstance(choice, Tree):
        return
    if choice.struct.startswith(OF_FUNCTION):
        key, _, module, *_ = json.loads(choice.struct[len(OF_FUNCTION) :])
        if module != BUILT_IN:
            yield key
    for item in choice.items:
        yield from _keys(item)
