"""Names that nothing here has, and members of modules of Python: what is told of them, and what checking goes on with.

Enters: a name or `torch.cat`, alone or with the call of it. Leaves: a diagnostic with a fix where one can be told, and
the expression that the fix writes: what follows is checked as if it stood there, so that the mistakes behind a foreign
name show with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import cast

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.base.spelling import is_one_slip
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.names.equivalents import by_peer_name
from tesserac.check.names.foreign_calls import COPIES, call_here, item_here, within
from tesserac.check.names.foreign_classes import OPTIMIZERS, layer_here
from tesserac.check.names.foreign_forms import is_only_so, words_on_item
from tesserac.check.names.foreign_names import (
    DTYPE_WORDS,
    LOADED,
    MODULES,
    NAMES,
    NEEDLESS_CALLS,
    NO_MODULE,
    OF_DEVICES,
    TILES,
    called_here,
    meant_otherwise,
)
from tesserac.check.names.foreign_operators import constructor_here
from tesserac.check.names.refs import BuiltinRef, FunctionRef, OperatorRef
from tesserac.check.names.struct_items import SELF
from tesserac.check.state.body import Body
from tesserac.check.values.rewriting import is_statement, names_a_value, stands_alone, whole_lines
from tesserac.diag.codes.names import E0201, E0207
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_input
from tesserac.types.dtype import spellings
from tesserac.types.ty import FunctionType, OperatorType, StructType, TransformType


@dataclass(frozen=True)
class Told:
    """A mistake was told. `instead` is what its fix writes there, if that is one thing."""

    instead: ast.Expr | None = None


def tell_of_other_module(body: Body, node: ast.Attribute, call: ast.Call | None = None) -> Told | None:
    """Tells of a member of what a program of Python has imported (`torch.nn.functional.relu`): the name of the library
    alone, what it is called here, or how a call of it is written. None where it is no such member."""
    root, modules = node.value, list[str]()
    while isinstance(root, ast.Attribute):
        modules.insert(0, root.name)
        root = root.value
    if not isinstance(root, ast.Name) or body.binds(root.id):
        return None
    copies = (root.id, node.name) in COPIES  # `copy` is a function of the library, too
    if not copies and (root.id not in MODULES or body.rules.resolve(root.id)):
        return None
    draft = body.sink.error(E0201, at=root.span, name=root.id)
    path = (root.id, *modules, node.name)
    told = None if call is None else _mended(body, draft, path, call)
    if told is not None:
        return told
    if call is not None and _suggest_without(body, draft, path, call):
        return Told()
    if (meant := meant_otherwise(node.name, set(path[:-1]))) is not None:
        draft.remark(meant)
        return Told()
    if call is not None and is_only_so(path):
        draft.remark(f"`{path[-2]}.{path[-1]}` with these arguments has no form here that is known")
        return Told()
    here = DTYPE_WORDS.get(node.name) or _other_name(body, node.name)
    if here is None and body.rules.resolve(node.name) is not None:
        draft.replace(NO_MODULE, node.span, node.name, advice=f"{NO_MODULE}: `{node.name}`")
        return _renamed(body, node, node.name, call)
    here = here or NAMES.get(node.name)
    if here is not None:
        draft.replace(f"here it is `{here}`", node.span, here, advice=f"here it is `{here}`")
        return _renamed(body, node, here, call)
    layer = layer_here(node.name) if path[-2] == "nn" else None
    known = called_here(node.name) or constructor_here(node.name) or layer
    draft.remark(known or f"the library has no `{node.name}`; what it has needs no module before it")
    return Told()


def _suggest_without(body: Body, draft: Draft, path: tuple[str, ...], call: ast.Call) -> bool:
    """Whether a call says how a program runs, or on which device, which is not said in it: a line without it."""
    about = NEEDLESS_CALLS.get(path[-1])
    if about is not None and (is_statement(body, call.span) or names_a_value(body, call.span)):
        draft.replace(f"leave it out: {about}", whole_lines(body, call.span), "", advice=about)
        return True
    if any(word in path[1:] for word in OF_DEVICES) and names_a_value(body, call.span):
        draft.replace(f"leave it out: {LOADED}", whole_lines(body, call.span), "", advice=LOADED)
        return True
    return False


def _renamed(body: Body, node: ast.Attribute | ast.Name, name: str, call: ast.Call | None) -> Told:
    """The name, or the call of it, with what was given; words of the language (`None`) are no names."""
    if body.rules.resolve(name) is None:
        return Told()
    function = ast.Name(node.span, name)
    return Told(function if call is None else ast.Call(call.span, function, call.arguments))


_ITEMS = ("[0]", "[1]", ".values", ".indices")
"""What picks one of two results of a function of PyTorch."""
_LONGEST = max(map(len, _ITEMS)) + 1
_PICKED = re.compile(r"\[[01]\]|\.(?:values|indices)\b(?!\()")


def _mended(body: Body, draft: Draft, path: tuple[str, ...], call: ast.Call) -> Told | None:
    """A fix that writes what a call of another module is here; None where that is not known."""
    picked = _PICKED.match(body.rules.text(Span(call.span.file, call.span.end, call.span.end + _LONGEST)))
    item = -1 if picked is None else _ITEMS.index(picked[0]) % 2
    part = None if picked is None else item_here(path, body.rules.text(call.span), item)
    if picked is not None and part is not None:
        write_instead(body, draft, part, call.span._replace(end=call.span.end + picked.end()))
        return Told()
    if picked is not None and (words := words_on_item(path)) is not None:
        draft.remark(words)
        return Told()
    in_place = body.kernel is not None or path[0] != TILES
    written = call_here(path, body.rules.text(call.span)) if in_place else None
    if written is not None:
        write_instead(body, draft, written, call.span)
        return Told(_read(body, written, call))
    file, start = call.span.file, call.span.start
    from tesserac.porting.training import ported_training

    whole_text = body.rules.text(Span(file, 0, sys.maxsize))
    changes = ported_training(whole_text, start) if path[-2:-1] == ("optim",) or path[-1] in OPTIMIZERS else None
    if changes is None:
        return None
    edits = [Edit(Span(file, change.start, change.end), change.text) for change in changes]
    title = "the loss is a function of the weights, whose gradient a step takes"
    draft.fix(title, *edits, advice=title)
    return Told()


def _read(body: Body, written: str, call: ast.Call) -> ast.Expr | None:
    """The expression that a text is, in the place of a call: arguments of it are those that stand there, and all else
    stands where the call does."""
    source = SourceFile(call.span.file, written)
    statements, mistakes = parse_input(source, 0, len(written))
    if mistakes or len(statements) != 1 or not isinstance(only := statements[0], ast.ExpressionStatement):
        return None
    given = {body.rules.text(argument.value.span): argument.value for argument in call.arguments}

    def placed(part: object) -> object:
        if isinstance(part, ast.Node):
            kept = given.get(written[part.span.start : part.span.end])
            if kept is not None and not isinstance(part, ast.Argument):
                return kept
            make: Callable[..., ast.Node] = type(part)
            return make(*[placed(getattr(part, field.name)) for field in fields(part)])
        if isinstance(part, Span):
            return call.span
        return tuple(placed(item) for item in part) if isinstance(part, tuple) else part

    return cast(ast.Expr, placed(only.value))


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


def unknown_name(
    body: Body, node: ast.Name, call: ast.Call | None = None, *, own: frozenset[str] = frozenset()
) -> Told:
    """Tells of a name that nothing has, alone or where it is called. `own` are names of fields and methods of the
    struct in whose method it stands, where no type tells them."""
    draft = body.sink.error(E0201, at=node.span, name=node.id)
    here, other = called_here(node.id), NAMES.get(node.id) or _other_name(body, node.id)
    if here is not None and other is not None:
        draft.replace(here, node.span, other, advice=here)
        return _renamed(body, node, other, call)
    told = None if here is None or call is None else _mended(body, draft, (node.id,), call)
    if told is None and here is not None:
        draft.remark(here)
    elif told is None:
        _suggest_known(body, draft, node, call is not None, own)
    if node.id[0].isupper() and body.declared.dim_spans:
        first = min((span for spans in body.declared.dim_spans.values() for span in spans), key=lambda span: span.start)
        draft.note(first, f"the sizes named here are {', '.join(f'`{name}`' for name in body.declared.dim_spans)}")
    return told or Told()


def _suggest_known(body: Body, draft: Draft, node: ast.Name, is_called: bool, own: frozenset[str]) -> None:
    """A name of the program or the library that is like one of nobody."""
    if node.id in own or _is_of_self(body, node.id):
        draft.replace(f"a field or a method stands behind `{SELF}.`", node.span, f"{SELF}.{node.id}")
    elif len(node.id) > 2:  # two letters are like too many names
        known = (name for name in _candidates(body, is_called) if is_called or _fits_value(body, node.id, name))
        draft.did_you_mean(node.id, known, node.span)
    else:
        near = [name for name in body.scope.bindings if is_one_slip(node.id.lower(), name.lower())]
        if len(near) == 1:
            draft.replace(f"did you mean `{near[0]}`?", node.span, near[0])


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


def tell_of_no_function(body: Body, node: ast.Call, value: typed.Expr) -> None:
    """A call of a value; one whose name is a function's everywhere else hides that."""
    draft = body.sink.error(E0207, at=node.function.span, what=type_text(value.type))
    if isinstance(node.function, ast.Name) and body.rules.library(node.function.id) is not None:
        name = node.function.id
        draft.remark(f"the local `{name}` hides the function of that name in all of its own function")
        draft.replace("the library's function has a second name", node.function.span, f"op.{name}")
