"""Classes of PyTorch, layers and optimizers: the function that does their work here.

Enters: the name of a class, as `nn.LayerNorm`. Leaves: words on what is written instead. A layer is the function of
`torch.nn.functional` that it calls, whose name is that of the class in small letters, under its name in the table of
equivalents; its weights are an argument.
"""

from __future__ import annotations

from functools import cache

from tesserac.check.names.equivalents import MISSING, Row, by_peer_name
from tesserac.porting.layers import LAYERS

WORDS = {
    "DataLoader": "a loop of the program that calls `step`, or `tessera train`",
    "Dataset": "arrays, which are arguments",
    "Module": "a `struct` of its weights with a method `apply(self, x)`, which `net(x)` calls",
    "ModuleList": "a field that is a list of structs: `blocks: List[L, Block[D]]`, with a loop over it",
    "Parameter": "a field of a struct: `w: Tensor[D, H, f32] = normal(D, H)`",
    "Sequential": "a `struct` of its layers, `a: Linear[D, H]`, whose `apply` calls one after the other: "
    "`self.b(relu(self.a(x)))`",
    "manual_seed": "`seed=` of each function that draws: `normal(N, seed=1)`",
}
OPTIMIZERS = {"Adafactor": "adafactor_init", "Adam": "adam_init", "AdamW": "adam_init", "SGD": "sgd_init"}
"""What makes the first state of each."""
_OF_LAYERS = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "MultiheadAttention": "multi_head_attention_forward",
}
"""Classes whose function has a name of its own."""
_OF_THREE = frozenset({
    "CTCLoss", "CosineEmbeddingLoss", "GaussianNLLLoss", "MarginRankingLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
})  # fmt: skip
"""Losses of more than a prediction and a target."""


def class_here(name: str) -> str | None:
    """What to say of a class that PyTorch has; None for a name that is nobody's."""
    if name in WORDS:
        return f"here it is {WORDS[name]}"
    if name in OPTIMIZERS:
        return f"here it is `{name.lower()}(params, grads, state)`, whose first state is `{OPTIMIZERS[name]}(params)`"
    if name in LAYERS:
        layer = LAYERS[name]
        sizes = [size[:1].upper() for size, given in layer.parameters.items() if given is None]
        form = f"{layer.struct}[{', '.join(sizes)}]"
        return f"here it is the struct `{form}`: a field `layer: {form}`, called as `self.layer(x)`"
    row = _layer(name)
    return None if row is None else f"here it is the function `{row.ours}`; options and weights are its arguments"


def layer_here(name: str) -> str | None:
    """What to say of a layer whose name might be that of a constant, alone: `nn.GELU`."""
    row = _functions().get(name.lower()) if name.isupper() else None
    return None if row is None else f"here it is the function `{row.ours}`; options and weights are its arguments"


def loss_here(name: str) -> str | None:
    """The function that a class of losses calls; None for what is no loss, or not of two arguments."""
    row = _layer(name) if name.endswith("Loss") else None
    return None if row is None or name in _OF_THREE else row.ours


def _layer(name: str) -> Row | None:
    if not name[:1].isupper():
        return None
    functions = _functions()
    if name in _OF_LAYERS:
        return by_peer_name().get(_OF_LAYERS[name])
    if name.isupper() and name.lower() in functions and functions[name.lower()].ours == name.lower():
        return None  # a constant of the program, `BLOCK`, and no class
    small = name.lower()
    spellings = (small, small.removesuffix("loss"), small.rstrip("d").rstrip("123"))
    return next((functions[spelling] for spelling in spellings if spelling in functions), None)


@cache
def _functions() -> dict[str, Row]:
    """Rows of what the library has under the names of functions, in small letters that run together."""
    found = ((name, row) for name, row in by_peer_name().items() if row.section != MISSING and not name[:1].isupper())
    return {name.replace("_", ""): row for name, row in found}
