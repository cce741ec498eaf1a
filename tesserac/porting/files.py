"""All classes of a file as structs, and the calls that make them: the fix of `class`.

Enters: the text of a file, and where a line that begins with `class` does. Leaves: what changes in the file; None where
that class has no struct. Classes that have none stay. What a class is made with by position is known only as long as it
is a class: so all are written anew together, with the lines that make them, `Net(8, heads=2)` as `Net[8](heads=2)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.porting.classes import Known, Struct, Untold, block_end, known_structs, parsed_class
from tesserac.porting.initializers import Simplified, fixed_parameters, layer_name
from tesserac.porting.layers import NoCounterpart, arguments, with_defaults
from tesserac.porting.methods import TRAINED
from tesserac.porting.settings import Expanded, Settings, method_of, settings_of, with_settings
from tesserac.porting.training import Change

_DECORATED = re.compile(r"^@(?:dataclasses\.)?dataclass(?:\([^)\n]*\))?[ ]*\n(?=class\b)", re.MULTILINE)
_FILLED = "weights begin as those of its layers do"


@dataclass(frozen=True)
class _Block:
    """A class of a file: where its text begins, with what decorates it, and ends."""

    start: int
    at: int
    end: int
    node: ast.ClassDef
    is_settings: bool


@dataclass(frozen=True)
class PortedFile:
    """What changes, where classes that change begin, and what to know of it; and what the others have that has no
    counterpart, by where they begin: its first line."""

    changes: tuple[Change, ...]
    places: frozenset[int]
    remarks: tuple[str, ...]
    obstacles: Mapping[int, str]


def ported_file(text: str, start: int) -> PortedFile | None:
    """The changes for all classes, if that at `start` is among them."""
    found = _ported(text)
    return found if found is not None and start in found.places else None


def obstacle(text: str, start: int) -> str:
    """What keeps the class at `start` from being a struct, as it is written; empty where that is not one thing."""
    found = _ported(text)
    return "" if found is None else found.obstacles.get(start, "")


@lru_cache(maxsize=4)
def _ported(text: str) -> PortedFile | None:
    blocks, obstacles = _blocks(text)
    try:
        return _Family(text, blocks, obstacles).written()
    except (NoCounterpart, KeyError, ValueError, AssertionError):
        return None


def _blocks(text: str) -> tuple[list[_Block], dict[int, str]]:
    """The classes that can be read, and what keeps others from it, by where those begin."""
    blocks, obstacles = list[_Block](), dict[int, str]()
    decorated = {found.end(): found.start() for found in _DECORATED.finditer(text)}
    for found in re.finditer(r"^class\b", text, re.MULTILINE):
        at = found.start()
        end = block_end(text, at)
        try:
            blocks.append(_Block(decorated.get(at, at), at, end, parsed_class(text[at:end]), at in decorated))
        except NoCounterpart as problem:
            obstacles[at] = _first_line(problem)
        except (SyntaxError, ValueError):
            continue
    return blocks, obstacles


def _first_line(problem: NoCounterpart) -> str:
    return "" if problem.part is None else ast.unparse(problem.part).partition("\n")[0]


class _Family:
    """The classes of one file."""

    def __init__(self, text: str, blocks: list[_Block], obstacles: dict[int, str]) -> None:
        self.text, self.blocks, self.obstacles = text, blocks, obstacles
        settings = (_settings(block.node) for block in blocks if block.is_settings)
        self.settings = {one.name: one for one in settings if one is not None}
        modules = [block.node for block in blocks if not block.is_settings]
        self.expanded = Expanded(modules, self.settings.values())
        self.known: dict[str, Known] = dict(known_structs(text))
        self.fixed: dict[str, Mapping[str, ast.expr]] = {}

    def written(self) -> PortedFile:
        changes, places, remarks = list[Change](), set[int](), dict[str, None]()
        simplified = self._simplified()
        for block in self.blocks:
            made = self._struct_text(block, simplified)
            if made is None:
                continue
            changes.append(Change(block.start, block.end, made[0]))
            places |= {block.start, block.at}
            remarks |= dict.fromkeys(made[1])
        if changes:
            changes += self._calls(changes)
        changes.sort(key=lambda change: change.start)
        return PortedFile(tuple(changes), frozenset(places), tuple(remarks), self.obstacles)

    def _simplified(self) -> dict[str, Simplified]:
        """Those that hold others first, since what these are made with is known there."""
        nodes, found = self.expanded.nodes, dict[str, Simplified]()
        for name in reversed(list(nodes)):
            others = [found[other].node if other in found else node for other, node in nodes.items()]
            calls = [call for node in others for call in _calls_of(node, name)] + self._outer_calls(name)
            try:
                self.fixed[name] = fixed_parameters(nodes[name], calls)
                _declare_floats(nodes[name], others, self._outer_calls(name))
                found[name] = Simplified(nodes[name], self.fixed[name])
            except NoCounterpart as problem:
                self._note(name, problem)
        return found

    def _outer_calls(self, name: str) -> list[ast.Call]:
        return [self._with_settings(name, call) for _, _, call in self._call_places(name, [])]

    def _with_settings(self, name: str, call: ast.Call) -> ast.Call:
        """A call with each setting in place of their object: the one value that it has, or what is read of them."""
        place = self.expanded.places.get(name)
        if place is None or place >= len(call.args):
            return call
        held = call.args[place]
        decided = self._decided_settings()
        return with_settings(
            call, self.expanded, name, lambda one: decided.get(one) or ast.Attribute(held, one, ast.Load())
        )

    def _decided_settings(self) -> dict[str, ast.expr]:
        """Settings that are true or false, or None, throughout the file."""
        calls = [call for name in self.settings for _, _, call in self._call_places(name, [])]
        given = [keyword for call in calls for keyword in call.keywords]
        found = dict[str, ast.expr]()
        for name, default in self.expanded.known.items():
            values = [keyword.value for keyword in given if keyword.arg == name] or ([default] if default else [])
            texts = {ast.unparse(value) for value in values}
            if len(texts) == 1 and texts <= {"True", "False", "None"}:
                found[name] = values[0]
        return found

    def _struct_text(self, block: _Block, simplified: Mapping[str, Simplified]) -> tuple[str, tuple[str, ...]] | None:
        if block.is_settings:
            one = self.settings.get(block.node.name)
            return None if one is None else (one.text(), ())
        try:
            source = simplified[block.node.name]
            struct = self._struct(source)
            text = struct.text(self.text[block.at : block.end])
            self.known[block.node.name] = struct.known(TRAINED in text)
            remarks = struct.remarks(text)
            return text, (*remarks, _FILLED) if source.fills else remarks
        except NoCounterpart as problem:
            self._note(block.node.name, problem)
        except (KeyError, SyntaxError, ValueError):
            pass
        return None

    def _note(self, name: str, problem: NoCounterpart) -> None:
        self.obstacles |= {block.at: _first_line(problem) for block in self.blocks if block.node.name == name}

    def _struct(self, source: Simplified) -> Struct:
        try:
            return Struct(_with_calls(source.node, self._without_fixed), self.known)
        except Untold:
            name = source.node.name
            derived = Simplified(self.expanded.nodes[name], self.fixed[name], is_derived=True)
            return Struct(_with_calls(derived.node, self._without_fixed), self.known)

    # -- calls outside of classes

    def _calls(self, changes: list[Change]) -> Iterator[Change]:
        for name in self.expanded.nodes:
            known = self.known.get(name)
            if known is None:
                continue
            for start, end, call in self._call_places(name, changes):
                try:
                    given = self._without_fixed(self._with_settings(name, call))
                    yield Change(start, end, _made(name, known, given))
                except (NoCounterpart, KeyError):
                    continue

    def _without_fixed(self, call: ast.Call) -> ast.Call:
        """A call of a class of the file by the names of its parameters, without those that have one value."""
        fixed = self.fixed.get(name := layer_name(call))
        made = method_of(self.expanded.nodes[name], "__init__") if fixed else None
        if not fixed or made is None:
            return call
        given = arguments(call, [arg.arg for arg in (*made.args.args[1:], *made.args.kwonlyargs)])
        return ast.Call(call.func, [], [ast.keyword(key, value) for key, value in given.items() if key not in fixed])

    def _call_places(self, name: str, changes: list[Change]) -> Iterator[tuple[int, int, ast.Call]]:
        """Where `name(...)` stands outside of what changes, and of classes."""
        spans = [(change.start, change.end) for change in changes] or [(b.start, b.end) for b in self.blocks]
        for found in re.finditer(rf"(?<![\w.]){re.escape(name)}(?=\()", self.text):
            end = _closed(self.text, found.end())
            if end is None or any(start <= found.start() < stop for start, stop in spans):
                continue
            try:
                call = ast.parse(self.text[found.start() : end], mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if isinstance(call, ast.Call):
                yield found.start(), end, call


def _settings(node: ast.ClassDef) -> Settings | None:
    try:
        return settings_of(node)
    except NoCounterpart:
        return None


def _calls_of(node: ast.ClassDef, name: str) -> Iterator[ast.Call]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and layer_name(part) == name:
            yield part


def _declare_floats(node: ast.ClassDef, others: Iterable[ast.ClassDef], outer: Iterable[ast.Call]) -> None:
    """Parameters of which nothing says what they are, and that are given floats, by a class that holds this one too."""
    made = method_of(node, "__init__")
    places = [] if made is None else [arg.arg for arg in made.args.args[1:]]
    calls = [(call, _float_parameters(other)) for other in others for call in _calls_of(other, node.name)]
    floats = set[str]()
    for call, known in [*calls, *((call, set[str]()) for call in outer)]:
        given = [*zip(places, call.args, strict=False), *((one.arg or "", one.value) for one in call.keywords)]
        floats |= {name for name, value in given if _is_float(value) or ast.unparse(value) in known}
    for arg in [] if made is None else made.args.args:
        if arg.annotation is None and arg.arg in floats:
            arg.annotation = ast.Name("float", ast.Load())


def _float_parameters(node: ast.ClassDef) -> set[str]:
    made = method_of(node, "__init__")
    args = [] if made is None else [*made.args.args, *made.args.kwonlyargs]
    return {arg.arg for arg in args if isinstance(arg.annotation, ast.Name) and arg.annotation.id == "float"}


def _is_float(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, float)


def _with_calls(node: ast.ClassDef, written: Callable[[ast.Call], ast.Call]) -> ast.ClassDef:
    """A class with its calls as they are written anew."""

    class Calls(ast.NodeTransformer):
        def visit_Call(self, call: ast.Call) -> ast.expr:
            self.generic_visit(call)
            return written(call)

    changed = Calls().visit(node)
    assert isinstance(changed, ast.ClassDef)
    return changed


def _made(name: str, known: Known, call: ast.Call) -> str:
    """`Net[8](heads=2)`."""
    given = arguments(call, [*known.parameters, *_OWN])
    with_all = with_defaults(given, known.defaults or {})
    sizes = ", ".join(ast.unparse(with_all[size]) for size in known.sizes)
    numbers = {number: given[number] for number in (*known.numbers, *_OWN) if number in given}
    made = ", ".join(f"{number}={ast.unparse(value)}" for number, value in numbers.items())
    return f"{name}{f'[{sizes}]' if sizes else ''}({made})"


_OWN = ("seed",)
"""What a struct is made with besides."""


def _closed(text: str, opened: int) -> int | None:
    """Behind the bracket that closes the one at `opened`."""
    depth = 0
    for place in range(opened, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return place + 1
    return None
