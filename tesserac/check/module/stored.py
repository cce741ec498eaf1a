"""What checked modules are made of on disk: the classes of data that a tree may hold, those of the checker itself, and
operators, which a tree names.
"""

from __future__ import annotations

from tesserac.base.codec import classes_in
from tesserac.base.late import Fields, Late
from tesserac.check.algebra import combined, constructors, kinds, products, spectra, structured
from tesserac.check.declarations import decorators, params
from tesserac.check.model import contracts, specs, typed
from tesserac.check.model.specs import Signature
from tesserac.check.module import findings, under_way
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.module.findings import Findings
from tesserac.check.names import refs, resolve
from tesserac.check.names.resolve import Exports, ModuleNames
from tesserac.check.state import rules
from tesserac.diag import stored
from tesserac.diag.sink import Draft, Sink
from tesserac.ops.registry import OPERATORS
from tesserac.syntax.ast import FunctionDef
from tesserac.syntax.stored import PARSED
from tesserac.types import algebra, dtype, policy, polynomial, terms, ty

_TYPES = classes_in(algebra, dtype, policy, polynomial, terms, ty)
_TREES = classes_in(rules, contracts, decorators, findings, params, refs, resolve, specs, typed, under_way)
_MATRICES = classes_in(combined, constructors, kinds, products, spectra, structured)

VALUES = _TYPES
"""Types of two values that are alike may be one."""
CHECKED = (*PARSED, *_TYPES, *_TREES, *_MATRICES, *OPERATORS.values())
CHECKERS = (ModuleChecker, ModuleNames, Exports, Sink, Draft)
NAMED: dict[str, object] = {**stored.NAMED, **OPERATORS}
_WRITTEN = ("parameters", "result", "symbols", "facts", "unbound", "hidden", "attributes", "spans")
_DEFINED = ("parameters", "returns", "where", "uses", "body")
LATE: dict[type[Late], Fields] = {
    FunctionDef: Fields(_DEFINED, lambda function: ("text", function.span.file)),
    Signature: Fields(_WRITTEN, lambda signature: signature.node.span),  # each alone: methods of all files are asked
    Findings: Fields(("tables",), lambda findings: findings.file),
}
"""A program calls functions of a few files of a library: nobody asks what is known of the others, nor for the text of
functions whose instances are known."""
