"""Values that only a call says: with which a definition is checked before.

Enters: the types of parameters, with `False` for a `bool` without a default, `""` for a `str`, and f32 for a tensor of
any dtype. Leaves: others, for a definition that these do not fit: `{"a": 1.0}[mode]` is wrong for `""` and right for
`"a"`, `assert x.dtype.kind == "i"` is right for integers. Strings are those that the definition itself has, since it
compares with them, or looks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from tesserac.check.model.specs import DTypeOf, ParameterSpec, ScalarSpec, Signature, Storage, TensorSpec
from tesserac.diag.codes.names import E0216, E0217, E0938
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.walk import children
from tesserac.types.dtype import I64
from tesserac.types.ty import BoolType, StrType, TensorType, Type

MAX_TRIALS = 64
"""Enough for six bools, and for two strings that are one of seven."""


def is_refused_value(sink: Sink) -> bool:
    """Whether a definition says itself which values it takes: by an assertion, its own or one of what it calls, or by
    what it looks up. What is wrong in any other way is a mistake for that value, whatever another one makes of it."""
    found = [d for d in sink.diagnostics if d.severity is Severity.ERROR]
    return bool(found) and all(d.code in (E0216.id, E0938.id) or _is_asserted_within(d) for d in found)


def _is_asserted_within(found: Diagnostic) -> bool:
    said = (found.primary.text, *(step.text for step in found.because))
    return found.code == E0217.id and any(E0216.title in text for text in said)


def other_values(
    signature: Signature, types: tuple[Type, ...], texts: Sequence[ast.Node]
) -> Iterator[tuple[Type, ...]]:
    """The types with other values for what a call has to say, those of the first parameters last."""
    strings = [StrType(text) for text in dict.fromkeys(_strings(texts))]
    choices: list[Sequence[Type]] = []
    for type_, parameter in zip(types, signature.parameters, strict=True):
        others: Sequence[Type] = ()
        if _is_untold(parameter):
            others = (BoolType(True),) if isinstance(type_, BoolType) else strings
        elif isinstance(type_, TensorType) and _leaves_dtype_to_calls(parameter, signature):
            others = (TensorType(type_.dims, I64),)
        choices.append((type_, *others))
    yield from islice(product(*choices), 1, MAX_TRIALS)


def _leaves_dtype_to_calls(parameter: ParameterSpec, signature: Signature) -> bool:
    """Whether a tensor has any dtype, and no other parameter has the same."""
    spec = parameter.spec
    if isinstance(spec, TensorSpec) and isinstance(spec.element, Storage | DTypeOf):
        return False
    elements = [other.spec.element for other in signature.parameters if isinstance(other.spec, TensorSpec)]
    return not any(isinstance(element, DTypeOf) and element.parameter == parameter.name for element in elements)


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
