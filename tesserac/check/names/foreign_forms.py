"""Calls of functions of NumPy, SciPy and PyTorch that the library has under the same name, with another meaning, other
defaults or other arguments: what does the same here.

Enters: the names before the brackets and the call. Leaves: its text here; None, or NoCounterpart, where that is not
known. Such a name must not be called without its module: the call would be right, and its value another.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tesserac.check.names.foreign_parts import (
    Form,
    Part,
    along_first,
    correlation,
    divergence,
    flat_diagonal,
    given_texts,
    median,
    medians,
    nonzero,
    of_all,
    places_in_one,
    powers,
    running,
    scaled,
    slope_along,
    solution_of_triangle,
    thin,
    within,
    written,
)
from tesserac.porting.layers import NoCounterpart, arguments


def form_of(path: tuple[str, ...]) -> Form | None:
    """What writes a call of these names, the last of which say more than the first."""
    same = tuple(_SAME.get(name, name) for name in path)
    return next((FORMS[same[-n:]] for n in (3, 2) if len(same) >= n and same[-n:] in FORMS), None)


def is_only_so(path: tuple[str, ...]) -> bool:
    """Whether a function means another thing here in all calls but those that `form_of` writes, or may do so."""
    return len(path) > 1 and (path[-1] in _OF_UFUNCS or (form_of(path) is not None and path[-2:] not in _OR_THE_SAME))


def words_on_item(path: tuple[str, ...]) -> str | None:
    """What to say where one of several results is asked for, and `item_of` has none."""
    if path[-1] == "nonzero":
        return "`nonzero(x, size=K)` gives the places in a vector alone, and of a matrix a tuple of rows and columns"
    if path[0] == "torch" and len(path) == 2 and (path[-1] in _WITH_PLACES or path[-1] in PARTS):
        return f"what is picked of the results of `{path[-1]}` has no form here that is known"
    return None


def item_of(path: tuple[str, ...], call: ast.Call, item: int) -> str | None:
    """What one of several results is that a function has in PyTorch, most often values and their places."""
    part = PARTS.get(path[-1]) if path[0] == "torch" and len(path) == 2 else None
    if part is not None:
        return part(call, item)
    if item and path[0] == "torch" and len(path) == 2 and path[-1] in _RUNNING:
        given = given_texts(call, ("input", "dim"))
        return f"{path[-1]}({given['input']}, axis={given['dim']}, return_indices=True)[1]"
    names = _WITH_PLACES.get(path[-1]) if path[0] == "torch" and len(path) == 2 else None
    if names is None or not names[item] or len(call.args) + len(call.keywords) < (1 if path[-1] == "sort" else 2):
        return None
    given = given_texts(call, ("input", "dim", "descending" if path[-1] == "sort" else "keepdim"))
    shown = {"dim": "axis", "keepdim": "keep", "descending": "descending"}
    said = [f"{shown[name]}={value}" for name, value in given.items() if name != "input"]
    return f"{names[item]}({', '.join([given['input'], *said])})"


def _padded(call: ast.Call) -> str:
    """`F.pad(x, (1, 2))`, whose pair is of the last axis; more are pairs from the last axis on here, too."""
    widths = arguments(call, ["input", "pad", "mode", "value"]).get("pad")
    given = given_texts(call, ("input", "pad", "mode", "value"))
    if not isinstance(widths, ast.Tuple | ast.List) or any(isinstance(item, ast.Starred) for item in widths.elts):
        raise NoCounterpart
    axis = "-1" if len(widths.elts) == 2 else None
    mode = None if given.get("mode") in (None, "'constant'") else given["mode"]
    return written("pad", given["input"], given["pad"], axis=axis, mode=mode, value=given.get("value"))


def _spread(function: str) -> Form:
    """`torch.std(x, dim)`, which divides by N - 1 unless that is said."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("input", "dim", "unbiased", "keepdim", "correction"))
        by_flag = {"True": "1", "False": "0"}
        if given.get("dim") in by_flag:  # torch.std(x, unbiased)
            given["unbiased"] = given.pop("dim")
        divisor = given.get("correction") or by_flag.get(given.get("unbiased", "True"))
        if divisor is None:
            raise NoCounterpart
        ddof = None if divisor == "0" else divisor
        return written(function, given["input"], axis=given.get("dim"), ddof=ddof, keep=given.get("keepdim"))

    return write


def _grid(call: ast.Call) -> str:
    """`torch.meshgrid(x, y)`, whose axes are in order unless that is said."""
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if set(named) - {"indexing"} or any(isinstance(value, ast.Starred) for value in call.args):
        raise NoCounterpart
    return written("meshgrid", *map(ast.unparse, call.args), indexing=named.get("indexing", '"ij"'))


def _linear(call: ast.Call) -> str:
    """`F.linear(x, weight, bias)`, whose weight is [out, in]."""
    given = given_texts(call, ("input", "weight", "bias"))
    product = f"{within(given['input'])} @ {within(given['weight'])}.T"
    bias = given.get("bias", "None")
    return product if bias == "None" else f"{product} + {within(bias)}"


def _norm(call: ast.Call) -> str:
    """`torch.norm(x, p, dim)`, which is of vectors, and of all elements without `dim`."""
    given = given_texts(call, ("input", "p", "dim", "keepdim"))
    p = given.get("p", "2").strip("'\"")
    if p == "nuc":
        raise NoCounterpart
    order = None if p in ("2", "2.0", "fro") else given["p"]
    return written("vector_norm", given["input"], order, axis=given.get("dim"), keep=given.get("keepdim"))


def _distance(call: ast.Call) -> str:
    given = given_texts(call, ("input", "other", "p"))
    return written("vector_norm", f"{given['input']} - {within(given['other'])}", given.get("p"))


def _triangle(function: str) -> Form:
    """`np.triu_indices(n, k, m)`: a square unless that is said, and the diagonal before the columns."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("n", "k", "m"))
        return written(function, given["n"], given.get("m", given["n"]), given.get("k"))

    return write


def _factor(call: ast.Call) -> str:
    """SciPy's Cholesky factor, the upper one unless that is said."""
    given = given_texts(call, ("a", "lower", "overwrite_a", "check_finite"))
    flags = {"True": None, "False": "True"}
    if given.get("lower", "False") not in flags:
        raise NoCounterpart
    return written("cholesky", given["a"], upper=flags[given.get("lower", "False")])


def _triangular(call: ast.Call) -> str:
    """SciPy's solution of a triangular system, the upper one unless that is said."""
    given = given_texts(call, ("a", "b", "trans", "lower", "unit_diagonal"))
    turned = {"0": "", "'N'": "", "1": ".T", "'T'": ".T", "2": ".H", "'C'": ".H"}.get(given.get("trans", "0"))
    flags = {"True": "False", "False": "True"}
    if turned is None or given.get("lower", "False") not in flags or "unit_diagonal" in given:
        raise NoCounterpart
    upper = flags[given.get("lower", "False")]
    if turned:
        return written("solve_triangular", f"{within(given['a'])}{turned}", given["b"], upper=flags[upper])
    return written("solve_triangular", given["a"], given["b"], upper=upper)


def _quotient(call: ast.Call) -> str:
    """`torch.div(a, b, rounding_mode="floor")`."""
    given = given_texts(call, ("input", "other", "rounding_mode"))
    sign = {"None": "/", "'floor'": "//"}.get(given.get("rounding_mode", "None"))
    if sign is None:
        raise NoCounterpart
    return f"{within(given['input'])} {sign} {within(given['other'])}"


def _parts(call: ast.Call) -> str:
    """`torch.split(x, [2, 3], dim)`: parts of these sizes."""
    sizes = arguments(call, ["tensor", "split_size_or_sections", "dim"]).get("split_size_or_sections")
    given = given_texts(call, ("tensor", "split_size_or_sections", "dim"))
    if not isinstance(sizes, ast.Tuple | ast.List):
        raise NoCounterpart
    return written("split_with_sizes", given["tensor"], given["split_size_or_sections"], axis=given.get("dim"))


def _added(sign: str) -> Form:
    """`torch.addcmul(x, y, z, value=v)`."""

    def write(call: ast.Call) -> str:
        given = {name: within(text) for name, text in given_texts(call, ("input", "a", "b", "value")).items()}
        first = f"{given['value']} * {given['a']}" if "value" in given else given["a"]
        return f"{given['input']} + {first} {sign} {given['b']}"

    return write


def _singular_values(call: ast.Call) -> str:
    """`np.linalg.svd(x, compute_uv=False)`."""
    given = given_texts(call, ("a", "full_matrices", "compute_uv"))
    if given.get("compute_uv") != "False":
        raise NoCounterpart
    return f"svdvals({given['a']})"


def _window(function: str, parameter: str = "") -> Form:
    """NumPy's windows and SciPy's, which end where they begin unless that is said."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("M", *filter(None, (parameter,)), "sym"))
        if given.get("sym", "True") not in ("True", "False"):
            raise NoCounterpart
        periodic = "False" if given.get("sym", "True") == "True" else None
        return written(function, given["M"], **{parameter or "none": given.get(parameter)}, periodic=periodic)

    return write


def _piece(call: ast.Call) -> str:
    """`torch.narrow(x, dim, start, length)`."""
    given = given_texts(call, ("input", "dim", "start", "length"))
    return written("slice", given["input"], given["start"], given["length"], axis=given["dim"])


def _pieces(call: ast.Call) -> str:
    """`lax.dynamic_slice(x, (i, j), (2, 3))`: a piece along each axis."""
    values = arguments(call, ["operand", "start_indices", "slice_sizes"])
    starts, sizes = values["start_indices"], values["slice_sizes"]
    if not isinstance(starts, ast.Tuple | ast.List) or not isinstance(sizes, ast.Tuple | ast.List):
        raise NoCounterpart
    piece = ast.unparse(values["operand"])
    for axis, (start, size) in enumerate(zip(starts.elts, sizes.elts, strict=True)):
        piece = written("slice", piece, ast.unparse(start), ast.unparse(size), axis=str(axis))
    return piece


def _row(call: ast.Call) -> str:
    """`torch.select(x, 1, i)`."""
    given = given_texts(call, ("input", "dim", "index"))
    if not given["dim"].isdigit():
        raise NoCounterpart
    return f"{within(given['input'])}[{':, ' * int(given['dim'])}{given['index']}]"


def _behind(text: str) -> Form:
    return lambda call: f"{within(given_texts(call, ('input',))['input'])}{text}"


def _listed(function: str) -> Form:
    """`torch.block_diag(a, b)`: what is here one list."""

    def write(call: ast.Call) -> str:
        if call.keywords or not call.args or any(isinstance(value, ast.Starred) for value in call.args):
            raise NoCounterpart
        return f"{function}([{', '.join(map(ast.unparse, call.args))}])"

    return write


def _chain(call: ast.Call) -> str:
    """A product of several matrices, in a list or one by one; its cheapest order is the compiler's."""
    first = call.args[0] if len(call.args) == 1 else None
    items = first.elts if isinstance(first, ast.Tuple | ast.List) else call.args
    if call.keywords or len(items) < 2 or any(isinstance(value, ast.Starred) for value in items):
        raise NoCounterpart
    return " @ ".join(within(ast.unparse(value)) for value in items)


def _solved(call: ast.Call) -> str:
    """`scipy.linalg.cho_solve((c, lower), b)`."""
    factor = arguments(call, ["c_and_lower", "b"])["c_and_lower"]
    if not isinstance(factor, ast.Tuple) or len(factor.elts) != 2 or not isinstance(factor.elts[1], ast.Constant):
        raise NoCounterpart
    upper = None if factor.elts[1].value else "True"
    b = given_texts(call, ("c_and_lower", "b"))["b"]
    return written("cholesky_solve", ast.unparse(factor.elts[0]), b, upper=upper)


def _solved_first(call: ast.Call) -> str:
    """`torch.cholesky_solve(b, l)`, whose factor is the second."""
    given = given_texts(call, ("B", "L", "upper"))
    return written("cholesky_solve", given["L"], given["B"], upper=given.get("upper"))


def _derivative(function: str) -> Form:
    """`torch.autograd.functional.jacobian(f, x)`: a function of a function here."""

    def write(call: ast.Call) -> str:
        values = arguments(call, ["func", "inputs"])
        by = values["inputs"]
        several = by.elts if isinstance(by, ast.Tuple) else None
        wrt = "" if several is None else f", wrt=({', '.join(map(str, range(len(several))))},)"
        return f"{function}({ast.unparse(values['func'])}{wrt})({', '.join(map(ast.unparse, several or [by]))})"

    return write


def _bell(call: ast.Call) -> str:
    """JAX's `nn.gelu`, an approximation unless that is said."""
    given = given_texts(call, ("x", "approximate"))
    return written("gelu", given["x"], approximate='"tanh"' if given.get("approximate", "True") == "True" else None)


def _appended(call: ast.Call) -> str:
    """`np.append(x, y, axis)`; without one it is of vectors."""
    given = given_texts(call, ("arr", "values", "axis"))
    if "axis" not in given:
        raise NoCounterpart
    return f"concat([{given['arr']}, {given['values']}], axis={given['axis']})"


def _folded(function: str) -> Form:
    """`np.add.reduce(x, axis)`, along the first axis unless that is said."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("a", "axis"))
        axis = given.get("axis", "0")
        return written(function, given["a"], axis=None if axis == "None" else axis)

    return write


def _slope(call: ast.Call) -> str:
    """`torch.autograd.grad(f(w, x), w)`: the derivative of a function by one of its arguments."""
    values = arguments(call, ["outputs", "inputs"])
    made, by = values.get("outputs"), values.get("inputs")
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name) or not isinstance(by, ast.Name):
        raise NoCounterpart
    names = [value.id if isinstance(value, ast.Name) else "" for value in made.args]
    if made.keywords or by.id not in names:
        raise NoCounterpart
    place = names.index(by.id)
    function = f"grad({made.func.id})" if place == 0 else f"grad({made.func.id}, wrt={place})"
    return f"{function}({', '.join(map(ast.unparse, made.args))})"


_SAME = {"numpy": "np", "jnp": "np", "functional": "F"}
"""Other names of a module."""
_WITH_PLACES = {
    "max": ("max", "argmax"),
    "min": ("min", "argmin"),
    "sort": ("sort", "argsort"),
    "cummax": ("cummax", ""),
    "cummin": ("cummin", ""),
}
_RUNNING = ("cummax", "cummin")
"""What gives places if it is asked for them."""
_OF_UFUNCS = ("accumulate", "at", "outer", "reduceat")
"""Methods of NumPy's functions of elements, which are not of this library's functions with their names."""
_OR_THE_SAME = frozenset({("linalg", "svd"), ("np", "divide")})
"""What means the same here in calls that no form writes."""
PARTS: Mapping[str, Part] = {
    "gradient": slope_along,
    "median": medians("quantile"),
    "nanmedian": medians("nanquantile"),
    "triangular_solve": lambda call, item: None if item else solution_of_triangle(call),
}
"""Functions of PyTorch with several results, and what writes one of them."""
_WINDOWS = {
    **dict.fromkeys(("hann", "hamming", "blackman", "bartlett", "boxcar", "triang", "parzen", "bohman"), ""),
    **dict.fromkeys(("barthann", "blackmanharris", "cosine", "flattop", "lanczos", "nuttall"), ""),
    "gaussian": "std",
    "kaiser": "beta",
    "tukey": "alpha",
}
"""Of `scipy.signal.windows`, with what stands between the length and the symmetry."""
FORMS: Mapping[tuple[str, ...], Form] = {
    ("F", "pad"): _padded,
    ("F", "linear"): _linear,
    ("torch", "std"): _spread("std"),
    ("torch", "var"): _spread("var"),
    ("torch", "median"): median("quantile"),
    ("torch", "nanmedian"): median("nanquantile"),
    ("torch", "add"): scaled("add", "+"),
    ("torch", "sub"): scaled("sub", "-"),
    ("torch", "subtract"): scaled("sub", "-"),
    ("torch", "nonzero"): nonzero,
    ("torch", "tril_indices"): places_in_one("tril_indices"),
    ("torch", "triu_indices"): places_in_one("triu_indices"),
    ("torch", "triangular_solve"): solution_of_triangle,
    ("torch", "diagflat"): flat_diagonal,
    ("linalg", "vander"): powers,
    ("torch", "meshgrid"): _grid,
    ("torch", "norm"): _norm,
    ("torch", "dist"): _distance,
    ("torch", "div"): _quotient,
    ("torch", "divide"): _quotient,
    ("torch", "split"): _parts,
    ("torch", "narrow"): _piece,
    ("torch", "select"): _row,
    ("torch", "t"): _behind(".T"),
    ("torch", "adjoint"): _behind(".H"),
    ("torch", "block_diag"): _listed("block_diag"),
    ("torch", "cartesian_prod"): _listed("cartesian_prod"),
    ("torch", "cholesky_solve"): _solved_first,
    ("F", "jacobian"): _derivative("jacrev"),
    ("F", "hessian"): _derivative("hessian"),
    ("torch", "chain_matmul"): _chain,
    ("linalg", "multi_dot"): _chain,
    ("linalg", "block_diag"): _listed("block_diag"),
    ("linalg", "cho_solve"): _solved,
    ("lax", "dynamic_slice"): _pieces,
    ("torch", "addcmul"): _added("*"),
    ("torch", "addcdiv"): _added("/"),
    ("torch", "baddbmm"): _added("@"),
    ("torch", "equal"): lambda call: written("array_equal", *given_texts(call, ("input", "other")).values()),
    ("autograd", "grad"): _slope,
    ("np", "triu_indices"): _triangle("triu_indices"),
    ("np", "tril_indices"): _triangle("tril_indices"),
    ("np", "append"): _appended,
    ("np", "diagflat"): flat_diagonal,
    **{("np", name): running(name) for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    ("np", "packbits"): running("packbits", "bitorder"),
    ("np", "divide"): _quotient,
    ("np", "hanning"): _window("hann_window"),
    **{("np", name): _window(f"{name}_window") for name in ("hamming", "blackman", "bartlett")},
    ("np", "kaiser"): _window("kaiser_window", "beta"),
    **{("windows", name): _window(f"{name}_window", parameter) for name, parameter in _WINDOWS.items()},
    ("add", "reduce"): _folded("sum"),
    ("multiply", "reduce"): _folded("prod"),
    ("maximum", "reduce"): _folded("max"),
    ("minimum", "reduce"): _folded("min"),
    ("logical_and", "reduce"): _folded("all"),
    ("logical_or", "reduce"): _folded("any"),
    **{("lax", name): along_first(name) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    ("lax", "cumlogsumexp"): along_first("logcumsumexp"),
    ("logaddexp", "accumulate"): along_first("logcumsumexp"),
    ("add", "accumulate"): along_first("cumsum"),
    ("multiply", "accumulate"): along_first("cumprod"),
    ("maximum", "accumulate"): along_first("cummax"),
    ("minimum", "accumulate"): along_first("cummin"),
    ("special", "softmax"): of_all("softmax"),
    ("special", "log_softmax"): of_all("log_softmax"),
    ("special", "kl_div"): divergence,
    ("signal", "correlate"): correlation,
    **{("stats", name): along_first(name) for name in ("mode", "kurtosis")},
    ("stats", "skew"): along_first("skewness"),
    ("scipy", "linalg", "qr"): thin,
    ("linalg", "svd"): _singular_values,
    ("nn", "gelu"): _bell,
    ("scipy", "linalg", "cholesky"): _factor,
    ("scipy", "linalg", "solve_triangular"): _triangular,
}
"""By the last names before the brackets."""
