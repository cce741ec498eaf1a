"""Names that NumPy, JAX or PyTorch have for what is called otherwise here: what to write instead.

Enters: a name that nothing has. Leaves: the name of the library that does the same, or words on how it is written: of
these tables, or of that of equivalents.
"""

from __future__ import annotations

import re

from tesserac.check.names.equivalents import MISSING, by_peer_name
from tesserac.check.names.foreign_classes import OPTIMIZERS, class_here
from tesserac.check.names.foreign_operators import question_here
from tesserac.check.names.foreign_tiles import TILE_WORDS
from tesserac.syntax import ast

NAMES = {
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "asarray": "array",
    "cat": "concat",
    "concatenate": "concat",
    "empty": "zeros",
    "empty_like": "zeros_like",
    "expit": "sigmoid",
    "false": "False",
    "from_numpy": "array",
    "in1d": "isin",
    "inf": "INF",
    "jacobian": "jacrev",
    "nan": "NAN",
    "newaxis": "None",
    "nil": "None",
    "none": "None",
    "null": "None",
    "nullptr": "None",
    "pi": "PI",
    "rand": "uniform",
    "randn": "normal",
    "top_k": "topk",
    "tree_leaves": "leaves",
    "true": "True",
}
"""Of a constant, or of a function that takes the same, or nearly so."""

DTYPE_WORDS = {
    "byte": "u8",
    "cdouble": "c128",
    "cfloat": "c64",
    "complex": "c64",
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "int": "i32",
    "long": "i64",
    "short": "i16",
    "single": "f32",
}
"""Words of C, Python and PyTorch for an element type."""
MODULES = (
    "np", "numpy", "jnp", "torch", "jax", "lax", "nn", "F", "tf", "math", "scipy", "linalg", "cola", "lineax",
    "linear_operator", "pylops", "tl", "triton", "optim", "optax", "jr", "random", "einops", "nnx", "eqx",
    "lr_scheduler", "rng", "stats", "special", "signal", "integrate", "optimize", "sklearn", "sp", "plt",
)  # fmt: skip
"""What a program of Python has imported."""
TILES = "tl"
"""What a program of Triton calls that of tiles, whose words are for kernels."""
NO_MODULE = "functions need no module before them"
_DIVIDES = "it divides by the number of elements unless that is said"
_SIGNS = {"add": "+", "subtract": "-", "divide": "/", "power": "**"}
"""Operators by what NumPy calls them."""
OTHERWISE = {
    "math": {"e": "`exp(1.0)`"},
    "np": {"e": "`exp(1.0)`"},
    "autograd": {"grad": "`grad(f)(w)`, the derivative of a function of w: nothing is recorded while it runs"},
    "lax": {
        "cond": "`f(x) if p else g(x)`",
        "gather": "`x[i]`, or `take_along_axis(x, i, axis)`",
        "scatter_add": "`x.at[i].add(v)`",
        "round": "`round(x)`, of two whole numbers as near the even one; that of `lax` is the one farther from 0",
        "select": "`where(p, x, y)`",
    },
    **{name: {"outer": f"`x[:, None] {sign} y[None, :]` of two vectors"} for name, sign in _SIGNS.items()},
    "polynomial": {"polyval": "`polyval(flip(c, axis=0), x)`: the constant comes last here, and coefficients first"},
    "utils": {
        "clip_grad_norm_": "`g = clip_by_global_norm(g, 1.0)`, of the gradients that `grad` gave",
        "clip_grad_value_": "`g = clip_by_value(g, 0.5)`, of the gradients that `grad` gave",
    },
    "func": {"grad_and_value": "`value_and_grad(f)`, which gives the value first"},
    "torch": {
        "e": "`exp(1.0)`",
        "equal": "`array_equal(x, y)`, one bool; `equal` compares each element",
        "gather": "`take_along_axis(x, i, axis)`; `gather` takes whole slices",
        "median": "`quantile(x, 0.5, axis=i, method=\"lower\")`, without places",
        "nanmedian": "`nanquantile(x, 0.5, axis=i, method=\"lower\")`, without places",
        "load": "`param w: Tensor[N, M, f32]`, which `m.load(\"w.safetensors\")` sets from Python",
        "range": "`arange(1, 5, dtype=f32)`, of one more: it ends before its end",
        "save": "what Python does with what a call gives: arrays, and structs of them",
        "scatter_add": "`x.at[i].add(v)`",
        "select": "`x[i]`, `x[:, i]`",
        "split": "`split(x, count)`, into so many equal parts, where PyTorch says how large they are",
        "std": f"`std(x, ddof=1)`: {_DIVIDES}",
        "svd": "`u, s, vh = svd(x)`; what is the third in PyTorch is `vh.H` here",
        "var": f"`var(x, ddof=1)`: {_DIVIDES}",
    },
    "F": {"pad": "`pad(x, (1, 2), axis=-1)`: a pair is of the last axis in PyTorch, of all axes here"},
    "optax": {
        "adam": "`params, state = adam(params, grads, state, lr=1e-3)`, whose first state is `adam_init(params)`",
        "adamw": "`params, state = adamw(params, grads, state, lr=1e-3)`, whose first state is `adam_init(params)`",
        "apply_updates": "part of a step: `params, state = adam(params, grads, state, lr=1e-3)`",
        "sgd": "`params, state = sgd(params, grads, state, lr=0.1)`, whose first state is `sgd_init(params)`",
    },
    TILES: TILE_WORDS,
}
"""By module, names that the library has for something else, or with another default."""

WORDS = {
    "Tensor": "`array([...], dtype=f32)`",
    "custom_jvp": "a function under `@jvp_of(f)`",
    "custom_vjp": "a function under `@vjp_of(f)`",
    "double": "`x.astype(f64)`",
    "fori_loop": "a `for` statement, `for i in range(low, high): c = ...`; derivatives and `vmap` go through it",
    "half": "`x.astype(f16)`",
    "self": "the first parameter of a method of a struct, and nothing outside of one",
    "linearize": "`lambda dx: jvp(f, (x,), (dx,))[1]`",
    "t": "`x.T`",
    "while_loop": "a `while` statement, `while c < 10.0: c = ...`; derivatives and `vmap` go through it",
}
"""Of what is an expression or a statement of the language."""

OF_PYTHON = {
    "all": "`all(x)`",
    "dict": "`{\"a\": x}`",
    "filter": "a comprehension: `[v for v in (1, 2) if v > 1]`",
    "format": "an f-string: `print(f\"{x}\")`",
    "getattr": "`x.name`: a program has no names that it computes",
    "hasattr": "`isinstance(x, Net)`",
    "iter": "a `for` statement",
    "list": "`(a, b)` or `[a, b]`: a list is a tuple, as long as it is written",
    "next": "a `for` statement",
    "repr": "an f-string: `print(f\"{x}\")`",
    "reversed": "`range(n - 1, -1, -1)`, or `flip(x, axis=0)` of a tensor",
    "set": "`unique(x, size=n)` of a tensor",
    "sorted": "`sort(x)` of a tensor",
    "str": "an f-string: `print(f\"{x}\")`",
    "tuple": "`(a, b)`",
    "type": "`isinstance(x, int)`, also of `float`, `bool`, `str`, `tuple`, `Tensor`; `x.dtype` of a tensor",
}
"""Functions of Python, and how the same is written."""

PACKAGES = frozenset({
    "abc", "accelerate", "argparse", "beartype", "cmath", "cola", "collections", "contextlib", "copy", "cupy",
    "dataclasses", "datasets", "einops", "enum", "equinox", "flax", "functools", "glob", "gym", "gymnasium",
    "inspect", "itertools", "jax", "jaxtyping", "json", "keras", "lightning", "linear_operator", "lineax", "logging",
    "math", "matplotlib", "numpy", "optax", "os", "pandas", "pathlib", "pickle", "PIL", "pylops", "pytorch_lightning",
    "random", "safetensors", "scipy", "sklearn", "string", "sys", "tensorflow", "time", "timm", "torch",
    "torchvision", "tqdm", "transformers", "triton", "typing", "wandb", "warnings",
})  # fmt: skip
"""What programs of Python import."""
NO_IMPORT = "a program imports its own files; what the library has needs no import: `exp(x)`, `grad(f)`"

ATTRIBUTES = {
    "bool": "`x.astype(bool)`",
    "data": "`x.detach()`",
    "dim": "`x.rank`",
    "indices": "the second of what `topk(x, k)` or `mode(x)` gives; of `sort` and `max` it is `argsort` and `argmax`",
    "float": "`x.astype(f32)`",
    "grad": "`grad(f)(x)`, the derivative of a function f at x: nothing is recorded while a function runs",
    "int": "`x.astype(i32)`",
    "long": "`x.astype(i64)`",
    "ndim": "`x.rank`",
    "nelement": "`x.size`",
    "new_ones": "`ones(N, dtype=x.dtype)`",
    "new_zeros": "`zeros(N, dtype=x.dtype)`",
    "type": "`x.astype(f32)`; `x.dtype` is known while compiling",
    "values": "the first of what `topk(x, k)` or `mode(x)` gives; `sort` and `max` give nothing else",
}
"""Of tensors alone: of a name that nothing has they would say too much."""
OF_DISTRIBUTIONS = {
    "logpdf": "log_prob",
    "logpmf": "log_prob",
    "mean": "expectation",
    "ppf": "icdf",
    "rvs": "sample",
    "std": "stddev",
    "var": "variance",
}
"""Of distributions: what PyTorch and SciPy have, and what it is here."""
LOADED = "what a program computes is where it is loaded: `tessera.load(file, device=\"cuda\")`"
LEFT_OUT = {
    "cpu": LOADED,
    "cuda": LOADED,
    "item": "a tensor without dims is the number itself",
    "numpy": "a call from Python gives arrays",
}
"""Methods of tensors that change no number, and why there is no need of them here."""
_SEEDED = "`m.seed(0)` from Python, or `seed=` of each function that draws: `normal(N, seed=1)`"
NEEDLESS_CALLS = {
    **dict.fromkeys(("Generator", "RandomState", "default_rng", "manual_seed", "manual_seed_all", "seed"), _SEEDED),
    "empty_cache": "where values lie, and how long, is the compiler's to choose",
    "set_default_dtype": "each tensor says its dtype: `zeros(N, dtype=f64)`",
    "set_device": "`tessera.load(file, device=\"cuda\")` says where a program runs",
    "set_float32_matmul_precision": "`tf32` is a dtype, and `with numerics(fast):` a choice of the program",
    "set_grad_enabled": "nothing is recorded while a function runs: `grad(f)` is its derivative, where it is asked for",
    "set_num_threads": "results do not depend on threads; `TESSERA_NUM_THREADS` says how many there are",
    "synchronize": "a call from Python gives what it has computed",
}
"""Statements about how a program runs, and where that is said here."""
OF_DEVICES = ("cuda", "device", "mps")
"""Modules and functions that say which device there is."""
_OF_ROWS = "`attention_with_lse(q, k, v)` gives the logarithms of the sums of rows beside the result"
FOREIGN_PARAMETERS = {
    "device": "`with device(gpu):` stands around what is to run there",
    "dtype": "the result has the dtype of what goes in: `x.astype(f64)` before the call",
    "layout": "a tensor is dense; `sparse` operators are values of their own",
    "non_blocking": "when a value is copied is the compiler's to choose",
    "pin_memory": "where memory lies is the compiler's to choose",
    "full_matrices": "factors are as wide as the smaller side, as `full_matrices=False` says",
    "generator": "`seed=` or `key=` gives a draw numbers of its own",
    "inplace": "nothing changes a tensor in place: bind the name again, `x = relu(x)`",
    "out": "a call gives its result: `y = f(x)`",
    "rcond": "the solution is all that is given; `pinv(a, rcond=1e-5) @ b` says which singular values count as 0",
    "requires_grad": "`grad(f)` is a derivative, where it is asked for",
    "return_lse": _OF_ROWS,
    "return_residual": _OF_ROWS,
    "size_average": "it is `reduction=\"mean\"`, \"sum\" or \"none\"",
    "unbiased": "`ddof=1` divides by one less than there are elements, `ddof=0` by their number",
}
"""What PyTorch's functions take, and how it is said here."""
NEEDLESS_PARAMETERS = ("device", "generator", "inplace", "layout", "non_blocking", "pin_memory", "requires_grad")
"""Those that can be left out: what they say is said elsewhere, or needs no saying."""
NEEDLESS_VALUES = {"full_matrices": "False", "rcond": "None"}
"""Those that can be left out where this is given."""
AXIS_FIRST = {
    "gather": "`take_along_axis(x, i, axis)`; `gather(x, i, axis)` takes whole slices",
    "scatter_add": "`x.at[i].add(v)`, with `arange` for the other dims; `scatter_add(x, i, v, axis)` adds whole slices",
}
"""Functions that take the axis before the places in PyTorch, and what they are here."""
COUNTS = {"repeat": "`tile(x, (2, 3))`, as often along each dim; `repeat(x, 2, axis)` repeats each element"}
"""Functions that take a count for each dim in PyTorch, where an axis follows here."""
PLACES_OF = {"max": "argmax", "median": "argsort", "min": "argmin", "sort": "argsort"}
"""Functions that give places beside the elements in PyTorch, and what gives those here."""
FOREIGN_CONTEXTS = {
    "autocast": "the precision is part of a type: `Tensor[B, N, bf16 @accum(f32)]`",
    "enable_grad": "nothing is recorded while a function runs: `grad(f)` is its derivative, where it is asked for",
    "inference_mode": "nothing is recorded while a function runs, so that there is nothing to turn off",
    "no_grad": "nothing is recorded while a function runs, so that there is nothing to turn off",
}
"""What PyTorch has after `with`."""
PYTHON_METHODS = {
    "__call__": "a call of a struct calls its method `apply`",
    "__init__": "a struct is made of its fields, `Net(w=...)`; one may have a default: `w: Tensor[N, f32] = zeros(N)`",
}
"""Names of methods that mean something to Python."""


def is_of_python(path: ast.ModulePath) -> bool:
    """Whether an import asks for one of `PACKAGES`."""
    return path.dots == 0 and path.names[:1] != () and path.names[0] in PACKAGES

def called_here(name: str) -> str | None:
    """What to say of a name that something else knows; None for a name that is nobody's."""
    here = f"`{NAMES[name]}`" if name in NAMES else WORDS.get(name) or OF_PYTHON.get(name)
    if here is not None:
        return f"here it is {here}"
    if name in MODULES:
        return f"{NO_MODULE}: `sum(x)`"
    return _in_the_table(name) or question_here(name) or class_here(name)


def meant_otherwise(name: str, modules: set[str]) -> str | None:
    """What to say of a name that the library has too, but not for what it means in one of these modules."""
    inner = modules - {"torch"} or modules  # `torch.linalg.svd` is not `torch.svd`
    meant = [OTHERWISE[module][name] for module in OTHERWISE if module in inner and name in OTHERWISE[module]]
    return f"here it is {meant[0]}" if meant else None


def attribute_here(name: str) -> str | None:
    """What to say of an attribute that tensors have elsewhere."""
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    return f"here it is {ATTRIBUTES[name]}" if name in ATTRIBUTES else called_here(name)


def member_here(name: str) -> str | None:
    """What stands behind the dot instead of an attribute or a method without arguments, if it is one thing."""
    written = re.fullmatch(r"`x\.([^`]+)`", ATTRIBUTES.get(name) or WORDS.get(name, ""))
    return written and written[1]


def named_here(name: str) -> str | None:
    """The name that the library has for the same, if the table of equivalents knows nothing else of it."""
    row = by_peer_name().get(name)
    return row.ours if row is not None and row.section != MISSING and not row.note and row.ours.isidentifier() else None


def _in_the_table(name: str) -> str | None:
    row = by_peer_name().get(name)
    if row is None or name in OPTIMIZERS:
        return None
    if row.section == MISSING:
        return f"the library has no `{name}`: {row.note}"
    return f"here it is `{row.ours}`" + (f": {row.note}" if row.note else "")
