"""Text to IR: reads what `printer.py` writes. For tests, golden files and tools; programs never come this way.

Type names are registered by the room that defines the type: `register_type("tile", parse_inner)`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable

from tesserac.base.source import NO_SPAN, Span
from tesserac.ir.attributes import attribute_class
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value
from tesserac.ir.types import INDEX, AxisType, MemRefType, ScalarType, TensorType, TileType, TokenType, Type
from tesserac.types.dims import Dim, parse_dim
from tesserac.types.dtype import DType, lookup
from tesserac.types.policy import Policy, parse_policy

_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_OP_NAME = re.compile(r"[a-z_][a-z_0-9]*\.[a-z_][a-z_0-9.]*")
_VALUE = re.compile(r"%[\w]+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"-?(?:inf|nan|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORDS: dict[str, Attr] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
}


class IRSyntaxError(Exception):
    """The text is not IR. Carries the line, since the text is usually a test."""


def parse_module(text: str) -> Module:
    """Reads a module; raises IRSyntaxError."""
    parser = _Parser(text)
    ops: list[Op] = []
    while not parser.at_end():
        ops.append(parser.op({}))
    return Module(ops)


_TYPE_PARSERS: dict[str, Callable[[str], Type]] = {}


def register_type(name: str, parse: Callable[[str], Type]) -> None:
    """`parse` gets what stands between the angle brackets ("" where there are none)."""
    if name in _TYPE_PARSERS:
        raise ValueError(f"type {name} is registered twice")
    _TYPE_PARSERS[name] = parse


def split_top(text: str, separator: str = ",") -> list[str]:
    """Splits at separators outside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "[(<{") - (char in "])>}")
        if char == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def parse_element(text: str) -> tuple[DType, Policy]:
    """`bf16 @accum(f32)`."""
    name, _, policy = text.partition(" ")
    dtype = lookup(name)
    if dtype is None:
        raise IRSyntaxError(f"unknown element type {name!r}")
    return dtype, parse_policy(policy)


def parse_dims(text: str) -> tuple[Dim, ...]:
    """`[M, 2*K]`."""
    return tuple(parse_dim(part) for part in split_top(text.strip()[1:-1]))


def _tensor(inner: str) -> Type:
    dims, elem = split_top(inner)
    return TensorType(parse_dims(dims), *parse_element(elem))


def _tile(inner: str) -> Type:
    shape, elem = split_top(inner)
    return TileType(tuple(int(n) for n in split_top(shape[1:-1])), *parse_element(elem))


def _memref(inner: str) -> Type:
    dims, elem, *rest = split_top(inner)
    strides: tuple[Dim, ...] = ()
    if rest and rest[0].startswith("strides="):
        strides = parse_dims(rest.pop(0)[len("strides=") :])
    space, *layout = rest
    return MemRefType(parse_dims(dims), *parse_element(elem), strides, space, *layout)


def _scalar(inner: str) -> Type:
    return ScalarType(parse_element(inner)[0])


register_type("tensor", _tensor)
register_type("tile", _tile)
register_type("memref", _memref)
register_type("scalar", _scalar)
register_type("index", lambda inner: INDEX)
register_type("axis", lambda inner: AxisType(int(inner)))
register_type("token", TokenType)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self._skip()

    # -- scanning

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def peek(self, literal: str) -> bool:
        return self.text.startswith(literal, self.pos)

    def accept(self, literal: str) -> bool:
        if not self.peek(literal):
            return False
        self.pos += len(literal)
        self._skip()
        return True

    def expect(self, literal: str) -> None:
        if not self.accept(literal):
            raise self.error(f"expected {literal!r}")

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self.text, self.pos)
        if match is None:
            raise self.error(f"expected {what}")
        self.pos = match.end()
        self._skip()
        return match.group()

    def error(self, message: str) -> IRSyntaxError:
        line = self.text.count("\n", 0, self.pos) + 1
        return IRSyntaxError(f"line {line}: {message}, found {self.text[self.pos : self.pos + 20]!r}")

    # -- grammar

    def op(self, scope: dict[str, Value]) -> Op:
        names = self._result_names()
        opname = self.take(_OP_NAME, "an operation")
        opdef = OPDEFS.get(opname)
        if opdef is None:
            raise self.error(f"unknown operation {opname}")
        attrs: dict[str, Attr] = {}
        if self.accept("@"):
            attrs["sym_name"] = self.take(re.compile(r"[\w.$]+"), "a symbol")
        operands = self._operands(scope)
        if self.peek("{") and not self._region_ahead():
            attrs.update(self._attr_dict())
        types = self._types(len(names))
        span = self._location()
        regions: list[Region] = []
        while self.peek("{"):
            regions.append(self._region(scope))
        op = Op(opdef, operands, types, attrs, regions, span, [_hint(n) for n in names])
        scope.update(zip(names, op.results, strict=True))
        return op

    def _result_names(self) -> list[str]:
        names: list[str] = []
        if self.peek("%"):
            names.append(self.take(_VALUE, "a value"))
            while self.accept(","):
                names.append(self.take(_VALUE, "a value"))
            self.expect("=")
        return names

    def _operands(self, scope: dict[str, Value]) -> list[Value]:
        values: list[Value] = []
        if not self.accept("("):
            return values
        while not self.accept(")"):
            name = self.take(_VALUE, "a value")
            if name not in scope:
                raise self.error(f"{name} is not defined")
            values.append(scope[name])
            self.accept(",")
        return values

    def _types(self, count: int) -> list[Type]:
        types: list[Type] = []
        if count:
            self.expect(":")
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        if len(types) != count:
            raise self.error(f"expected {count} result types")
        return types

    def _location(self) -> Span:
        if not self.accept("loc("):
            return NO_SPAN
        file = json.loads(self.take(_STRING, "a file"))
        self.expect(",")
        start = int(self.take(_NUMBER, "an offset"))
        self.expect(",")
        end = int(self.take(_NUMBER, "an offset"))
        self.expect(")")
        return Span(file, start, end)

    def _region_ahead(self) -> bool:
        match = _SPACE.match(self.text, self.pos + 1)
        assert match is not None
        return self.text.startswith("^", match.end())

    def _region(self, outer: dict[str, Value]) -> Region:
        self.expect("{")
        self.expect("^")
        self.expect("(")
        scope = dict(outer)
        block = Block()
        while not self.accept(")"):
            name = self.take(_VALUE, "a value")
            self.expect(":")
            scope[name] = block.add_arg(self.type(), _hint(name))
            self.accept(",")
        self.expect(":")
        while not self.accept("}"):
            block.append(self.op(scope))
        return Region(block)

    def type(self) -> Type:
        name = self.take(_WORD, "a type")
        parse = _TYPE_PARSERS.get(name)
        if parse is None:
            raise self.error(f"unknown type {name}")
        return parse(self._angle() if self.peek("<") else "")

    def _angle(self) -> str:
        """What stands between the angle bracket here and the one that closes it."""
        depth, start = 0, self.pos + 1
        for i in range(self.pos, len(self.text)):
            depth += (self.text[i] == "<") - (self.text[i] == ">")
            if depth == 0:
                self.pos = i + 1
                self._skip()
                return self.text[start:i]
        raise self.error("unclosed '<'")

    def _attr_dict(self) -> dict[str, Attr]:
        attrs: dict[str, Attr] = {}
        self.expect("{")
        while not self.accept("}"):
            key = self.take(_WORD, "an attribute name")
            self.expect("=")
            attrs[key] = self.attr()
            self.accept(",")
        return attrs

    def attr(self) -> Attr:
        if self.peek('"'):
            text = json.loads(self.take(_STRING, "a string"))
            assert isinstance(text, str)
            return text
        if self.accept("["):
            return self._tuple()
        if self.accept("`"):
            return self._dim()
        if self.accept("#"):
            return self._structured()
        if self.peek("-") or self.text[self.pos].isdigit():
            return _number(self.take(_NUMBER, "a number"))
        return self._word()

    def _tuple(self) -> Attr:
        items: list[Attr] = []
        while not self.accept("]"):
            items.append(self.attr())
            self.accept(",")
        return tuple(items)

    def _dim(self) -> Dim:
        end = self.text.index("`", self.pos)
        dim = parse_dim(self.text[self.pos : end])
        self.pos = end
        self.expect("`")
        return dim

    def _structured(self) -> Attr:
        name = self.take(_WORD, "an attribute class")
        cls = attribute_class(name)
        if cls is None or not dataclasses.is_dataclass(cls):
            raise self.error(f"unknown attribute class {name}")
        values: dict[str, Attr] = {}
        self.expect("<")
        while not self.accept(">"):
            key = self.take(_WORD, "a field")
            self.expect("=")
            values[key] = self.attr()
            self.accept(",")
        built: Attr = cls(**values)
        return built

    def _word(self) -> Attr:
        start = self.pos
        word = self.take(_WORD, "an attribute value")
        if word in _WORDS and not self.peek("<"):
            return _WORDS[word]
        if word == "dtype":
            return parse_element(self._angle())[0]
        if word == "policy":
            return parse_policy(self._angle())
        self.pos = start
        return self.type()


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _hint(name: str) -> str:
    """Printed names that are numbers are no hints."""
    return name[1:] if name[1:].isidentifier() else ""
