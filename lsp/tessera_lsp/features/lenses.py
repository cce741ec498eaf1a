"""What stands above functions and tests: commands to run them, and what is known of them and written nowhere.

In: a file. Out: `Lens`es. What the laws of linear algebra make of a function is worked out where a lens is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tessera_lsp.features.meanings import checked_function
from tessera_lsp.features.orders import PRODUCTS, checked_functions
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.driver.session import Session
from tesserac.incremental.analyser import ItemView
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.ty import ErrorType, NoneType

MAIN = "main"
LONGEST = 100
"""Of a title."""

Does = Literal["run test", "run main", "tell", "tell rewrites"]


@dataclass(frozen=True)
class Lens:
    """`name` is that of the function or of the test; a title that is empty is asked for where the lens is looked at."""

    span: Span
    does: Does
    name: str
    title: str


def lenses(session: Session, source: SourceFile) -> list[Lens]:
    """Nothing waits for it: what is still to be checked is shown as it was."""
    analysis = session.check_visible(source)
    return [lens for view in analysis.items for node in view.nodes for lens in _of_item(view, node)]


def _of_item(view: ItemView, node: ast.Item) -> Iterator[Lens]:
    match node:
        case ast.TestBlock(name=name):
            yield Lens(view.now(name.span), "run test", name.value, "run test")
        case ast.FunctionDef():
            if node.name == MAIN and all(parameter.default is not None for parameter in node.parameters):
                yield Lens(view.now(node.name_span), "run main", MAIN, "run main")
            yield from _of_function(view, node)
            if _has_products(node):
                yield Lens(view.now(node.name_span), "tell rewrites", node.name, "")
        case ast.StructDef(methods=methods):
            for method in methods:
                yield from _of_function(view, method)


def _of_function(view: ItemView, node: ast.FunctionDef) -> Iterator[Lens]:
    """What it gives, where that is not written; its effects, where those are not; and what is asked on entry."""
    checked = checked_function(node, view.result)
    if checked is None:
        return
    told = list[str]()
    if node.returns is None and not isinstance(checked.result, ErrorType | NoneType):
        told.append(f"gives {checked.result.show()}")
    if checked.effects and node.uses is None:
        told.append(f"uses {', '.join(sorted(checked.effects))}")
    stated = {clause.span for clause in node.where}
    asked = [guard.rule for guard in checked.guards if guard.span not in stated]
    if asked:
        told.append(f"checks on entry {', '.join(asked)}")
    if told:
        yield Lens(view.now(node.name_span), "tell", node.name, shortened("; ".join(told)))


def _has_products(node: ast.FunctionDef) -> bool:
    """Whether there is a product of products, which can be taken in another order."""
    products = (part for part in descendants(node) if isinstance(part, ast.BinaryOp) and part.op in PRODUCTS)
    return any(isinstance(side, ast.BinaryOp) for product in products for side in (product.left, product.right))


def rewrites(session: Session, source: SourceFile, name: str) -> str:
    """What the laws make of a function, in one line."""
    found = checked_functions(session, source, name)
    if found is None:
        return "products: told where the program has no mistakes"
    from tesserac.driver.rewriting import MOST_FUNCTIONS, lines_of, rewrites_of  # the Graph is loaded where it is asked

    functions, symbol = found
    if len(functions) > MOST_FUNCTIONS:
        return "products: too many functions to look through"
    told = [lines for step in rewrites_of(functions, symbol, derivatives=False) if (lines := lines_of(step))]
    if not told:
        return "products: as they are written"
    more = f" (and {len(told) - 1} more)" if told[1:] else ""
    return shortened("; ".join(told[0])) + more


def shortened(title: str) -> str:
    return title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}…"
