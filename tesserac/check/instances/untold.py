"""Values that only a call says: with which a definition is checked before.

Enters: the types of parameters, with `False` for a `bool` without a default and `""` for a `str`. Leaves: others, for a
definition that these do not fit: `{"a": 1.0}[mode]` is wrong for `""` and right for `"a"`. Strings are those that the
definition itself has, since it compares with them, or looks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from tesserac.check.model.specs import ParameterSpec, ScalarSpec, Signature
from tesserac.diag.codes.names import E0216, E0938
from tesserac.diag.diagnostic import Severity
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.walk import children
from tesserac.types.ty import BoolType, StrType, Type

MAX_TRIALS = 64
"""Enough for six bools, and for two strings that are one of seven."""


def is_refused_value(sink: Sink) -> bool:
    """Whether a definition says itself which values it takes: by an assertion, or by what it looks up. What is wrong in
    any other way is a mistake for that value, whatever another one makes of it."""
    found = [d for d in sink.diagnostics if d.severity is Severity.ERROR]
    return bool(found) and all(d.code in (E0216.id, E0938.id) for d in found)


def other_values(
    signature: Signature, types: tuple[Type, ...], texts: Sequence[ast.Node]
) -> Iterator[tuple[Type, ...]]:
    """The types with other values for what a call has to say, those of the first parameters last."""
    open_ = [_is_untold(parameter) for parameter in signature.parameters]
    if not any(open_):
        return
    strings = [StrType(text) for text in dict.fromkeys(_strings(texts))]
    choices: list[Sequence[Type]] = []
    for type_, is_open in zip(types, open_, strict=True):
        known: Sequence[Type] = (BoolType(True),) if isinstance(type_, BoolType) else strings
        choices.append((type_, *known) if is_open else (type_,))
    yield from islice(product(*choices), 1, MAX_TRIALS)


def _is_untold(parameter: ParameterSpec) -> bool:
    spec = parameter.spec
    return isinstance(spec, ScalarSpec) and spec.kind in ("bool", "str") and parameter.default is None


def _strings(nodes: Sequence[ast.Node]) -> Iterator[str]:
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.StringLiteral):
            yield node.value
        waiting += reversed(children(node))
