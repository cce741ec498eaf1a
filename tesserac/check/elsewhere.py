"""Names that NumPy, JAX or PyTorch have for what is called otherwise here: what to write instead.

Enters: a name that nothing has. Leaves: the name of the library that does the same, or words on how it is written.
"""

from __future__ import annotations

NAMES = {
    "asarray": "array",
    "clip": "clamp",
    "concatenate": "concat",
    "expand_dims": "unsqueeze",
    "inverse": "inv",
    "jacobian": "jacrev",
    "solve_triangular": "triangular_solve",
    "top_k": "topk",
    "tree_leaves": "leaves",
}
"""Of a function that takes the same, or nearly so."""

WORDS = {
    "allclose": "`all(abs(a - b) <= tolerance)`",
    "broadcast_to": "`expand(x, shape)`",
    "custom_jvp": "a function under `@jvp_of(f)`",
    "custom_vjp": "a function under `@vjp_of(f)`",
    "dot": "`a @ b`",
    "flatten": "`reshape(x, (-1,))`",
    "fori_loop": "a `for` statement; derivatives and `vmap` go through it",
    "linearize": "`lambda dx: jvp(f, (x,), (dx,))[1]`",
    "ravel": "`reshape(x, (-1,))`",
    "swapaxes": "`permute(x, order)`, or `x.T` for the last two dims",
    "vdot": "`sum(conj(a) * b)`",
    "while_loop": "a `while` statement; derivatives and `vmap` go through it",
}
"""Of what is an expression or a statement of the language."""


def called_here(name: str) -> str | None:
    """What a program writes for it; None for a name that is nobody's."""
    return f"`{NAMES[name]}`" if name in NAMES else WORDS.get(name)
