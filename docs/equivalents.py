"""The page of equivalents: what NumPy, PyTorch, JAX and ONNX call what the library has, and what it lacks.

Enters: the table that messages about unknown names read too. Leaves: `equivalents.md`.
"""

from __future__ import annotations

from docs.beyond import BEYOND
from tesserac.check.names.equivalents import MISSING, PEERS, Row, rows

_HEAD = """# Names of other libraries

What NumPy, PyTorch, JAX and ONNX call what Tessera has, with the option or the default that differs. Names of SciPy
stand beside those of NumPy. Names of PyTorch without a dot are those of `torch` or `torch.nn.functional`, names of
JAX begin below `jax`. All names of ours, with their options: [operators](operators.md). The table is checked by the
tests: every name of ours exists, and so does every name of a peer that is installed. `python -m tests.tools.onnx`
runs the node tests that ONNX ships, each written as a call of the library: [what came of
them](../benchmarks/results/onnx-nodes.md).
"""
_LACKS = """What the library does not have under a name of its own, and what to write meanwhile.
"""
_OTHERS = """Functions that no array program calls, and who does their work. Every public function of NumPy (with
`linalg`, `fft` and `random`), of `torch`, `torch.nn.functional`, `torch.nn.init`, `torch.linalg`, `torch.special` and
`torch.fft`, of `jax.numpy` (with `linalg` and `fft`), `jax.nn` (with `initializers`), `jax.lax`, `jax.random`,
`jax.scipy` and `scipy.special`, every method of an array of the three that does not change it in place, every
distribution of `torch.distributions`, optimiser of `torch.optim` and schedule of its `lr_scheduler` has the same name
here, or is in a table above or below: a test looks. Classes of `torch.nn` are layers of the functions that they are
named after.
"""


ML = (
    ("ArrayFeatureExtractor", "x[:, i]"),
    ("Binarizer", "cast(x > 0.5, f32)"),
    ("FeatureVectorizer", "concat([x, y], axis=1)"),
    ("Imputer", "where(isnan(x), v, x)"),
    ("LabelEncoder", "gather(values, searchsorted(keys, x))"),
    ("LinearClassifier", "softmax(x @ w + b)"),
    ("LinearRegressor", "x @ w + b"),
    ("Normalizer", "normalize(x)"),
    ("OneHotEncoder", "one_hot(i, 10)"),
    ("SVMClassifier", "exp(-gamma * square(cdist(x, vectors))) @ coefficients"),
    ("SVMRegressor", "exp(-gamma * square(cdist(x, vectors))) @ coefficients"),
    ("Scaler", "(x - offset) * scale"),
)
"""Operators of ONNX's other domain, of classical learning, which are an expression here."""
ML_WITHOUT = {
    "values are texts or dicts, which are known while compiling only": "CastMap CategoryMapper DictVectorizer ZipMap",
    "trees are arrays, walked by a loop of `gather`": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
}
"""Those that are none, and why."""
_OF_ML = """Operators of `ai.onnx.ml` are expressions of a line or work on texts: none has a name of its own here.
"""


def _learning() -> str:
    lines = ["## ONNX's classical learning\n", _OF_ML, "| ai.onnx.ml | Tessera |", "|---|---|"]
    lines += [f"| `{name}` | `{ours}` |" for name, ours in ML]
    lines += [f"| {', '.join(f'`{name}`' for name in names.split())} | {why} |" for why, names in ML_WITHOUT.items()]
    return "\n".join(lines) + "\n"


def equivalents_page() -> str:
    every = rows()
    parts = [_HEAD]
    for section in dict.fromkeys(row.section for row in every):
        inside = [row for row in every if row.section == section]
        parts.append(f"## {section}\n")
        parts += [_LACKS] if section == MISSING else []
        parts.append(_table(inside, section != MISSING))
    return "\n".join([*parts, _learning(), _beyond()])


def _beyond() -> str:
    lines = ["## Not of arrays\n", _OTHERS, f"|  | {' | '.join(PEERS[:3])} |", "|---|---|---|---|"]
    for why, *names in BEYOND:
        cells = (", ".join(f"`{name}`" for name in group.split()) for group in names)
        lines.append(f"| {why} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _table(inside: list[Row], has_own: bool) -> str:
    own = ("Tessera",) if has_own else ()
    lines = [f"| {' | '.join((*own, *PEERS, ''))} |", "|---" * (len(own) + len(PEERS) + 1) + "|"]
    for row in inside:
        cells = [*((row.ours,) if has_own else ()), *row.theirs]
        shown = [f"`{cell}`" if cell else "" for cell in cells]
        lines.append(f"| {' | '.join((*shown, row.note.replace('|', chr(92) + '|')))} |")
    return "\n".join(lines) + "\n"
