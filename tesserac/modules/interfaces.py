"""The interface of a checked module, on disk: what another module needs of it, without parsing or checking it again.

Enters: a module that was checked and has no errors. Leaves: an `Interface`, and from one a `CheckResult` to import
names, types and instances from. It has no bodies to compile. See Note [What an interface is].
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tesserac.base.codec import Codec
from tesserac.base.dataclass import dataclass
from tesserac.base.records import Records
from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, Imported, unchecked_module
from tesserac.check.instances.checking import is_generic
from tesserac.check.model import typed
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.module.stored import CHECKED, NAMED
from tesserac.check.names.resolve import ImportPath
from tesserac.diag.check_record import Reads
from tesserac.modules.library import Library
from tesserac.syntax import ast
from tesserac.types.ty import FunctionType, Type, parts

Summary = tuple[str, tuple[Type, ...], typed.TypedFunction]
"""A function by its name and the types of its parameters, without its body."""


@dataclass(frozen=True)
class Interface:
    """`text` is the digest of the file it was made of, `imports` are the interfaces of the files it imports, and
    `digest` is that of all an importer can depend on."""

    name: str
    text: str
    imports: Reads
    digest: str
    module: ast.Module
    summaries: tuple[Summary, ...]


_CODEC = Codec((*CHECKED, Interface), named=NAMED)


def keep_interface(records: Records, path: str, interface: Interface) -> None:
    records.write("interface", path, interface, _CODEC)


def load_interface(records: Records, path: str, name: str) -> Interface | None:
    """The interface kept of a file as it is now; those of its imports may have changed since."""
    known = records.read("interface", path, _CODEC)
    fits = isinstance(known, Interface) and known.name == name and known.text == records.digest(path)
    return known if fits and isinstance(known, Interface) else None


def interface_of(result: CheckResult, module: ast.Module, source: SourceFile, text: str, imports: Reads) -> Interface:
    """Made of a module without errors."""
    summaries = {name: (name, types, f) for name, types, f in _definitions(result.checker) if _is_closed(f)}
    digest = hashlib.sha256(repr(imports).encode())
    for part in _parts(module, source, summaries):
        digest.update(f"\0{part}".encode("utf-8", "surrogatepass"))
    stored = tuple((name, types, replace(f, body=())) for name, types, f in summaries.values())
    return Interface(result.checker.name, text, imports, digest.hexdigest(), module, stored)


def restore(
    interface: Interface, source: SourceFile, library: Library, imports: Mapping[ImportPath, Imported]
) -> CheckResult:
    """The module as its importers see it. Instances that it has no summary of are checked when they are asked for."""
    result = unchecked_module(
        interface.module, source, interface.name, library, imports, f"{interface.name}."
    )
    result.checker.adopt(interface.summaries)
    return result


def _definitions(checker: ModuleChecker) -> Iterator[Summary]:
    """The functions that have one instance only, whoever calls them, each with the types of its parameters."""
    for name in checker.names.functions:
        signature = checker.own_signature(name)
        if not signature.has_open_parameters and not is_generic(signature):
            types = checker.representatives(name)[0]
            function = checker.own_instance(name, types).function
            if function is not None:
                yield name, types, function


def _is_closed(function: typed.TypedFunction) -> bool:
    """Whether callers see nothing of the body: a function that is returned takes its own with it."""
    return not _has_function(function.result) and not any(_has_function(p.type) for p in function.params)


def _has_function(type_: Type) -> bool:
    return isinstance(type_, FunctionType) or any(map(_has_function, parts(type_) or ()))


def _parts(module: ast.Module, source: SourceFile, summaries: Mapping[str, Summary]) -> Iterator[str]:
    """What importers depend on, as text, wherever it stands in the file."""
    for item in module.items:
        if isinstance(item, ast.FunctionDef) and item.name in summaries and item.body:
            head = item.body[0].span.start
            yield source.text[item.span.start : head] + _summary(summaries[item.name][2])
        elif not isinstance(item, ast.TestBlock):
            yield source.slice(item.span)


def _summary(function: typed.TypedFunction) -> str:
    guards = "; ".join(guard.text for guard in function.guards)
    reads = "; ".join(f"{param.name}: {param.type.show()}" for param in function.reads)
    rest = (sorted(function.effects), function.symbols, function.within, function.collectives)
    return f"{function.result.show()} | {guards} | {reads} | {rest}"


# Note [What an interface is]
# A function whose parameters say all (dtypes, ranks, no compile-time values, no functions) has one instance, and a
# caller reads of it the result, the guards, the effects and the params: its summary. Its body may change without anyone
# noticing. Everything else is instantiated by its callers, so its text is part of the interface, as are constants and
# structs. The tree is kept whole, so that nothing is parsed again. Places are no part of the digest: a file whose
# diagnostics show a place in another is not alone (see `CheckRecord`), and depends on its text.
