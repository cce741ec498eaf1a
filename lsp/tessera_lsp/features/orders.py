"""What the laws of linear algebra make of a product: the order that is taken, what another would save, and when."""

from __future__ import annotations

from tessera_lsp.features.places import Place
from tesserac.base.source import SourceFile, Span
from tesserac.check.model.typed import TypedFunction
from tesserac.diag.diagnostic import Severity
from tesserac.driver.session import Session
from tesserac.syntax import ast

PRODUCTS = ("@", "∘")


def orders(session: Session, source: SourceFile, place: Place) -> str:
    """In Markdown; nothing where the cursor is on no product, or the program has mistakes."""
    function, product = place.function, _product(place)
    if not isinstance(function, ast.FunctionDef) or product is None:
        return ""
    found = checked_functions(session, source, function.name)
    if found is None:
        return ""
    from tesserac.driver.rewriting import told_at  # the Graph is loaded where somebody asks for it

    lines = told_at(*found, place.view.now(product))
    return "\n".join(["```text", *lines, "```"]) if lines else ""


def checked_functions(session: Session, source: SourceFile, name: str) -> tuple[list[TypedFunction], str] | None:
    """A function of a program without mistakes, by its symbol, with those that it calls."""
    checked = session.check(source)
    if any(found.severity is Severity.ERROR for found in checked.diagnostics):
        return None
    found = next((function for function in checked.result.module.functions if function.name == name), None)
    return None if found is None else (list(checked.result.reach(found).values()), found.symbol)


def _product(place: Place) -> Span | None:
    """The whole chain of products that the cursor is on."""
    found: Span | None = None
    for node in reversed(place.path):
        if not (isinstance(node, ast.BinaryOp) and node.op in PRODUCTS):
            break
        found = node.span
    return found
