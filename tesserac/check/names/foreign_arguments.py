"""Calls as other libraries have them, with fewer or more arguments than a function of the library takes.

Enters: the name of the function, and the parameters that were given nothing. Leaves: words on what is written instead.
"""

from __future__ import annotations

from collections.abc import Collection

_OF_A_MASK = "how many elements a mask picks is not known while compiling"
WITHOUT = {
    ("argwhere", "size"): f"{_OF_A_MASK}: there is room for `size` rows, and what is left of it is `fill`",
    ("flatnonzero", "size"): f"{_OF_A_MASK}: there is room for `size` places, and what is left of it is `fill`",
    ("nonzero", "size"): f"{_OF_A_MASK}: there is room for `size` places, and what is left of it is `fill`",
    ("MultiheadAttention.apply", "heads"): "the heads are an argument of the call: `layer(x, heads=8)`",
    ("one_hot", "classes"): "how many classes there are is a size, which labels do not tell while compiling",
    ("split", "parts"): "how many is said: two keys are `split(key, 2)`, three parts of a tensor `split(x, 3)`",
    ("unique", "size"): "how many elements differ is not known while compiling: there is room for `size` of them",
    ("where", "x"): f"the places where a mask holds are `nonzero(c, size=K)`: {_OF_A_MASK}",
}
"""What to say of a call that leaves a parameter out, which other libraries do not have."""
STANDING_IN = {("MultiheadAttention.apply", "heads"): "1", ("one_hot", "classes"): "10"}
"""Numbers for what only the user knows, with which the call is right."""
_STATES = {
    "adafactor": "adafactor_init(params)",
    "adam": "adam_init(params)",
    "adam_atan2": "adam_init(params)",
    "adamw": "adam_init(params)",
    "lbfgs": "lbfgs_init(f, params)",
    "lion": "momentum_init(params)",
    "momentum": "momentum_init(params)",
    "sgd": "sgd_init(params)",
    "sign_sgd": "sgd_init(params)",
}
"""Optimisers, and what makes the first state of each."""
BEYOND = {"cond": "`cond(A)` is of a matrix; what JAX calls `lax.cond` is `f(x) if p else g(x)`"}
"""What to say of a call with too many arguments."""


def left_out_here(function: str, missing: Collection[str]) -> str | None:
    """None where nobody has the function without these parameters."""
    if "state" in missing and function in _STATES:
        first = "f, params" if function == "lbfgs" else "params, grads"
        return (
            f"a step is `params, state = {function}({first}, state)`, "
            f"whose first state is `{_STATES[function]}`: nothing keeps one between calls"
        )
    return next((WITHOUT[function, name] for name in missing if (function, name) in WITHOUT), None)
