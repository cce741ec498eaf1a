"""The sizes of a layer where it is declared: `fc: Linear[4096, 10]`.

Enters: a call of a field of a struct, and a size of the field's struct that what it is given does not have. Leaves: on
the diagnostic, the place of the field where that size is written, and the fix that writes the other one.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.model.specs import DimSpec, ListSpec, StructSpec, TypeSpec
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import ListType, StructType


def show_field_size(body: Body, draft: Draft, layer: typed.Expr, symbol: str, wanted: Dim) -> None:
    """Where the size `symbol` of a layer stands in the struct that holds it, and what it would have to be."""
    declared = _declared_size(body, layer, symbol)
    if declared is None:
        return
    text = body.rules.text(declared.span)
    draft.note(declared.span, f"{dim_text(Dim.sym(symbol))} of this layer is {dim_text(declared.dim)}")
    spec = _field(body, layer)
    if not text or not isinstance(spec, StructSpec) or not wanted.symbols() <= _sizes(layer):
        return
    draft.replace(f"make this size {dim_text(wanted)}, which it is given", declared.span, str(wanted))
    other = next((arg for arg in spec.args or () if arg.dim == wanted), None)
    if other is not None:
        edits = (Edit(declared.span, body.rules.text(other.span)), Edit(other.span, text))
        draft.fix(f"swap its sizes {dim_text(declared.dim)} and {dim_text(wanted)}", *edits)


def _sizes(layer: typed.Expr) -> frozenset[str]:
    """The sizes of the struct that holds the layer, by whose names its methods know them."""
    while isinstance(layer, typed.Item) and isinstance(layer.value.type, ListType):
        layer = layer.value
    held = layer.value.type if isinstance(layer, typed.Item) else layer.type
    return frozenset(str(dim) for dim in held.dims) if isinstance(held, StructType) else frozenset()


def _declared_size(body: Body, layer: typed.Expr, symbol: str) -> DimSpec | None:
    spec = _field(body, layer)
    if not isinstance(spec, StructSpec) or spec.args is None or symbol not in spec.decl.parameters:
        return None
    place = spec.decl.parameters.index(symbol)
    return spec.args[place] if place < len(spec.args) else None


def _field(body: Body, layer: typed.Expr) -> TypeSpec | None:
    """The annotation of a field of a struct of this module, or of the items of a list that is one."""
    if not isinstance(layer, typed.Item):
        return None
    if isinstance(layer.value.type, ListType):
        held = _field(body, layer.value)
        return held.item if isinstance(held, ListSpec) else None
    if not isinstance(layer.value.type, StructType):
        return None
    decl = body.rules.struct(ast.Name(layer.span, layer.value.type.name))
    return decl.fields[layer.index].spec if decl is not None and layer.index < len(decl.fields) else None
