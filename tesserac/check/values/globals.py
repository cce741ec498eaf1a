"""Names as values: locals, sizes, constants, functions, dtypes.

Enters: a name of the syntax tree. Leaves: the value it has here, or a diagnostic with the name most likely meant.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from tesserac.base.source import Span
from tesserac.base.spelling import is_one_slip
from tesserac.check.model import typed
from tesserac.check.model.scope import Lost
from tesserac.check.names.equivalents import by_peer_name
from tesserac.check.names.foreign_calls import call_here, within
from tesserac.check.names.foreign_names import (
    DTYPE_WORDS,
    MODULES,
    NAMES,
    NEEDLESS_PARAMETERS,
    NO_MODULE,
    called_here,
    meant_otherwise,
)
from tesserac.check.names.foreign_operators import constructor_here
from tesserac.check.names.refs import (
    ALGEBRA,
    COLLECTIVES,
    TRANSFORMS,
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LibraryRef,
    ModuleRef,
    NamespaceRef,
    OperatorRef,
    ParamRef,
    ReportedRef,
    Resolved,
    StructRef,
)
from tesserac.check.state.body import Body
from tesserac.check.values.rewriting import stands_alone
from tesserac.diag.codes.names import E0201, E0203, E0299
from tesserac.diag.codes.shapes import E0306
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.porting.training import ported_training
from tesserac.syntax import ast
from tesserac.types.dtype import spellings
from tesserac.types.ty import DTypeType, ErrorType, FunctionType, IntType, OperatorType, StructType, TransformType

BUILT_IN = "built in"
"""The module that operators are functions of, where they are values."""


def infer_name(body: Body, node: ast.Name) -> typed.Expr:
    scope, name = body.scope, node.id
    if name in scope.bindings:
        return body.local(name, node.span)
    if name in scope.half_bound:
        _explain_lost(body, node, scope.half_bound[name])
        return body.error(node.span)
    if name in body.sizes.untold_symbols:
        draft = body.sink.error(E0306, at=node.span, name=name)
        draft.remark("it may stand in types; take it as an int parameter to have its value")
        return body.error(node.span)
    if name in body.sizes.symbols:
        for size in sorted(body.sizes.symbols[name].symbols()):
            body.mention(size)
        return typed.Static(IntType(body.sizes.symbols[name]), node.span)
    return global_value(body, node, body.rules.resolve(name))


def _explain_lost(body: Body, node: ast.Name, lost: Lost) -> None:
    """Of a name that only a branch or an iteration binds."""
    draft = body.sink.error(E0203, at=node.span, name=node.id)
    draft.note(lost.span, "it has a value only after this")
    if lost.loop is None:
        return
    advice = "a loop may run no iteration: give the name a value before it"
    if not lost.initial:
        draft.remark(advice)
        return
    line = body.rules.text(Span(lost.loop.file, 0, lost.loop.start)).rpartition("\n")[2]
    start, indent = lost.loop.start - len(line), line[: len(line) - len(line.lstrip())]
    before = Span(lost.loop.file, start, start)
    draft.replace(advice, before, f"{indent}{node.id} = {lost.initial}\n", advice=advice, is_one_way=True)


def global_value(body: Body, node: ast.Name, meaning: Resolved | None) -> typed.Expr:
    built_in = _built_in(node, meaning)
    if built_in:
        return typed.Static(FunctionType(BUILT_IN, built_in), node.span)
    match meaning:
        case ConstantRef(owner, name):
            return body.rules.constant(body, owner, name, node.span)
        case FunctionRef(owner, name):
            return typed.Static(FunctionType(owner, name), node.span)
        case ParamRef(owner, name):
            param = body.rules.param(owner, name)
            body.read(param)
            known = not isinstance(param.type, ErrorType)
            return typed.Weight(param.type, node.span, param.name) if known else body.error(node.span)
        case DTypeRef(dtype):
            return typed.Static(DTypeType(dtype), node.span)
        case BuiltinRef() | LibraryRef() | StructRef() | ModuleRef() | NamespaceRef():
            draft = body.sink.error(E0299, at=node.span, feature=f"`{node.id}` as a value")
            _suggest_leaving_out(body, draft, node.span)
        case ReportedRef():
            pass
        case None:
            unknown_name(body, node)
    return body.error(node.span)


def _suggest_leaving_out(body: Body, draft: Draft, value: Span) -> None:
    """`device=device`, where that is nothing that the program has made: it needs no saying."""
    before = body.rules.text(Span(value.file, 0, value.start))
    named = re.search(r",?\s*(\w+)\s*=\s*\Z", before)
    if named is not None and named[1] in NEEDLESS_PARAMETERS:
        whole = Span(value.file, value.start - len(named[0]), value.end)
        draft.replace(f"leave `{named[1]}` out", whole, "", advice=f"leave `{named[1]}` out")


def _built_in(node: ast.Name, meaning: Resolved | None) -> str:
    """The name of a function of the language itself that may be a value; empty where there is none."""
    match meaning:
        case OperatorRef(op):
            return op.name
        case BuiltinRef(name) if name.startswith(ALGEBRA) or name in (*TRANSFORMS, *COLLECTIVES):
            return name
    return ""


def is_of_other_module(body: Body, node: ast.Attribute, call: ast.Call | None = None) -> bool:
    """Whether this is a member of what a program of Python has imported (`torch.nn.functional.relu`), which is told:
    the name of the library alone, what it is called here, or how a call of it is written."""
    root, modules = node.value, list[str]()
    while isinstance(root, ast.Attribute):
        modules.insert(0, root.name)
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in MODULES or body.binds(root.id) or body.rules.resolve(root.id):
        return False
    draft = body.sink.error(E0201, at=root.span, name=root.id)
    path = (root.id, *modules, node.name)
    if call is not None and _is_mended(body, draft, path, call):
        pass
    elif (meant := meant_otherwise(node.name, set(path[:-1]))) is not None:
        draft.remark(meant)
    elif node.name in DTYPE_WORDS:
        dtype = DTYPE_WORDS[node.name]
        draft.replace(f"here it is `{dtype}`", node.span, dtype, advice=f"here it is `{dtype}`")
    elif (other := _other_name(body, node.name)) is not None:
        draft.replace(f"here it is `{other}`", node.span, other, advice=f"here it is `{other}`")
    elif body.rules.resolve(node.name) is not None:
        draft.replace(NO_MODULE, node.span, node.name, advice=f"{NO_MODULE}: `{node.name}`")
    elif node.name in NAMES:
        here = NAMES[node.name]
        draft.replace(f"here it is `{here}`", node.span, here, advice=f"here it is `{here}`")
    else:
        draft.remark(called_here(node.name) or constructor_here(node.name) or NO_MODULE)
    return True


def _is_mended(body: Body, draft: Draft, path: tuple[str, ...], call: ast.Call) -> bool:
    """Whether a fix writes what a call of another module is here."""
    written = call_here(path, body.rules.text(call.span))
    if written is not None:
        write_instead(body, draft, written, call.span)
        return True
    file, start = call.span.file, call.span.start
    whole_text = body.rules.text(Span(file, 0, sys.maxsize))
    changes = ported_training(whole_text, start) if path[-2:-1] == ("optim",) else None
    if changes is None:
        return False
    edits = [Edit(Span(file, change.start, change.end), change.text) for change in changes]
    title = "the loss is a function of the weights, whose gradient a step takes"
    draft.fix(title, *edits, advice=title)
    return True


def write_instead(body: Body, draft: Draft, written: str, span: Span) -> None:
    """A fix that puts an expression where a call stands, in brackets where it is part of another."""
    whole = written if stands_alone(body, span) else within(written)
    draft.replace(f"here it is `{written}`", span, whole, advice=f"here it is `{written}`")


def _other_name(body: Body, name: str) -> str | None:
    """What a function of another module is called here, where its own name is nothing or something else:
    `torch.tensor([1.0])` is `array([1.0])`, and `tensor(A, B)` a product of operators."""
    row = by_peer_name().get(name)
    if row is None or row.note or not isinstance(body.rules.resolve(name), BuiltinRef | None):
        return None
    return row.ours if row.ours != name and body.rules.resolve(row.ours) is not None else None


SELF = "self"


def unknown_name(
    body: Body, node: ast.Name, call: ast.Call | None = None, *, own: frozenset[str] = frozenset()
) -> None:
    """Of a name that nothing has, alone or where it is called. `own` are names of fields and methods of the struct in
    whose method it stands, where no type tells them."""
    draft, is_called = body.sink.error(E0201, at=node.span, name=node.id), call is not None
    here, other = called_here(node.id), NAMES.get(node.id) or _other_name(body, node.id)
    if here is not None and other is not None:
        draft.replace(here, node.span, other, advice=here)
    elif here is not None and call is not None and _is_mended(body, draft, (node.id,), call):
        pass
    elif here is not None:
        draft.remark(here)
    elif node.id in own or _is_of_self(body, node.id):
        draft.replace(f"a field or a method stands behind `{SELF}.`", node.span, f"{SELF}.{node.id}")
    elif len(node.id) > 2:  # two letters are like too many names
        known = (name for name in _candidates(body, is_called) if is_called or _fits_value(body, node.id, name))
        draft.did_you_mean(node.id, known, node.span)
    if node.id[0].isupper() and body.declared.dim_spans:
        first = min((span for spans in body.declared.dim_spans.values() for span in spans), key=lambda span: span.start)
        draft.note(first, f"the sizes named here are {', '.join(f'`{name}`' for name in body.declared.dim_spans)}")


def _is_of_self(body: Body, name: str) -> bool:
    """Whether the struct of a method has a field or a method of this name."""
    own = body.scope.bindings.get(SELF)
    if own is None or not isinstance(own.type, StructType):
        return False
    return own.type.position(name) is not None or name in body.rules.methods(own.type)


def _candidates(body: Body, is_called: bool) -> Iterator[str]:
    """Names of a kind that may stand there: what is called is no size and no dtype."""
    callable_ = (FunctionType, StructType, TransformType, OperatorType)
    yield from (name for name, own in body.scope.bindings.items() if not is_called or isinstance(own.type, callable_))
    yield from body.rules.suggestions()
    yield from () if is_called else (*body.sizes.symbols, *spellings())


def _fits_value(body: Body, name: str, candidate: str) -> bool:
    """A function is a value too, but seldom meant: only where the name is one slip away from it."""
    is_function = isinstance(body.rules.resolve(candidate), FunctionRef | OperatorRef | BuiltinRef)
    local = body.binds(candidate)
    return local or not is_function or is_one_slip(name.lower(), candidate.lower())
