"""What a message proposes can stand where it is proposed; names of other libraries have an answer of their own."""

from __future__ import annotations

import pytest

from tesserac.check.names.equivalents import by_peer_name
from tesserac.check.names.foreign_names import NAMES, WORDS, called_here
from tests.support.checking import check_text, library


def said(statement: str, dtype: str = "f32") -> str:
    """All that is said of a statement, and what it would be replaced by."""
    result = check_text(f"def f(x: Tensor[N, {dtype}], y: Tensor[N, {dtype}]):\n    {statement}\n    return x\n")
    shown = []
    for d in result.diagnostics:
        fixes = [f"fix: {edit.replacement}" for fix in d.fixes for edit in fix.edits]
        shown += [d.title, d.primary.span.file, *d.notes, *fixes]
    return "\n".join(shown)


@pytest.mark.parametrize(("statement", "guess"), [
    ("y = np.sum(x)", "N"), ("y = x * pi", "pinv"), ("y = rand(3)", "grad"), ("y = x * nan", "isnan"),
    ("y = max_unpool3d(x, x)", "max_pool3d"), ("y = x.dot(x)", "det"), ("y = x + T2", "tf32"), ("x.add_(1.0)", "add"),
    ("y = nm(x)", "N"), ("y = torch.gather(x, 0, x)", "gather"), ("y = torch.split(x, 2)", "split"),
    ("y = torch.var(x)", "var(x)"),  # these mean something else there
])  # fmt: skip
def test_what_cannot_stand_there_is_not_proposed(statement: str, guess: str) -> None:
    assert f"fix: {guess}" not in said(statement)


@pytest.mark.parametrize(("statement", "advice"), [
    ("y = max(x, y)", "fix: maximum"), ("y = min(x, 0.0)", "fix: minimum"), ("y = x[newaxis, :]", "fix: None"),
    ("y = np.sum(x)", "fix: sum"), ("y = torch.nn.functional.relu(x)", "fix: relu"),
    ("y = torch.cat([x])", "fix: concat"),
    ("y = x * math.pi", "fix: PI"), ("y = x.dim()", "fix: rank"), ("y = f64(x + 1.0)", "fix: cast(x + 1.0, f64)"),
    ("y = nn.LayerNorm(4)(x)", "fix: LayerNorm"),
    ("y = nn.CrossEntropyLoss()(x, x)", "fix: (lambda x, y: cross_entropy"),
    ("y = nn.MaxPool2d(2)(x)", "`max_pool2d`"), ("y = BCELoss()(x, x)", "fix: (lambda x, y: bce"),
    ("y = nn.ReLU()(x)", "`relu`"),
    ("y = torch.gather(x, 0, x)", "fix: take_along_axis(x, x, axis=0)"), ("y = torch.std(x)", "fix: std(x, ddof=1)"),
    ("y = jax.lax.select(x > y, x, y)", "fix: where(x > y, x, y)"), ("y = torch.split(x, 2)", "`split(x, count)`"),
    ("y = jnp.std(x)", "fix: std"), ("y = nn.Linear(3, 4)(x)", "fix: Linear"),
    ("y = torch.optim.Adam(x)", "`adam_init(params)`"),
    ("y = x[np.newaxis, :]", "fix: None"), ("y = torch.nosuch(x)", "needs no module"),
    ("y = expit(x)", "fix: sigmoid"), ("y = x.t()", "fix: x.T"), ("y = x.item()", "fix: "),
    ("y = x.numpy()", "fix: "), ("y = Tensor([1.0])", "`array("), ("y = rand(3)", "fix: uniform"),
    ("y = masked_scatter(x, x, 0.0)", "`where` with `gather`"), ("y = lobpcg(x)", "the library has no"),
    ("y = x.dot(x)", "fix: x @ x"), ("y = 2.0 * dot(x, y + x)", "fix: (x @ (y + x))"),
    ("x.add_(1.0)", "fix: x = x.add(1.0)"), ("y = sofmax(x)", "fix: softmax"),
    ("y = vdot(x, y)", "fix: sum(conj(x) * y)"), ("y = np.around(x)", "fix: round"),
    ("y = arctan2(x, y)", "fix: atan2"), ("y = embedding(ones(2, 3, dtype=i32), ones(4, 3))", "fix: ones(4, 3)"),
    ("y = embedding(ones(3, dtype=i32), ones(4, 3))", "fix: ones(4, 3)"), ("y = x.float()", "fix: astype(f32)"),
    ("y = array_split(x, 2)", "fix: tensor_split"), ("y = np.hsplit(x, 2)", "fix: split(x, 2, axis=1)"),
    ("y = x.clamp_min(0.5)", "fix: maximum(x, 0.5)"), ("y = torch.var_mean(x)", "fix: (var(x, ddof=1), mean(x))"),
    ("y = Normal(x, 1.0).mean", "fix: .expectation()"), ("y = Normal(x, 1.0).ppf(x)", "fix: icdf"),
    ("y = Normal(x, 1.0).scale", 'fix: ["scale"]'), ("y = Normal(x, 1.0).prob(x)", "`log_prob`"),
    ("y = Categorical(x)", "fix: probs=x"),
    ("y = vmap(lambda v, k: v + normal(key=k))(x, split(key(0), 3))", "fix: stack(split(key(0), 3))"),
    ("y = dot(x)", "`x @ y`"), ("y = vmap(rleu)(x)", "fix: relu"), ("y = sort(sum(x))", "example.tess"),
    ("with no_grad(): y = x", "nothing is recorded"), ("with torch.autocast(): y = x", "part of a type"),
    ("with banana(): y = x", "there are `numerics(fast)`"), ("y = op.LinearOperator(x)", "`op.implicit("),
    ("y = cola.ops.Dense(x)", "`op.dense(M)`"), ("y = eigsh(x, 2)", "`lanczos("), ("y = op.diag(x) * y", "`A @ x`"),
    ("y = op.diag(x).matvec(y)", "`A @ x`"), ("y = op.diag(x) @ ones(3, N)", "`x @ A.T`"),
])  # fmt: skip
def test_what_is_said_instead(statement: str, advice: str) -> None:
    assert advice in said(statement)


CALLED = """
struct Net[N]:
    w: Tensor[N, f32]

    def {}(self, x: Tensor[N, f32]) -> Tensor[N, f32]:
        return x * self.w

def f(net: Net[N], x: Tensor[N, f32]):
    return net(net(x))
"""


@pytest.mark.parametrize(("method", "codes", "fix"), [
    ("apply", [], ""), ("forward", ["E0208", "E0208"], "net.forward"), ("other", ["E0208", "E0208"], ""),
    ("__call__", ["E0221"], "apply"),
])  # fmt: skip
def test_what_a_call_of_a_struct_calls(method: str, codes: list[str], fix: str) -> None:
    """A method that has the name of another tool is told once where its name is wrong, else at the calls."""
    found = check_text(CALLED.format(method)).diagnostics
    assert [d.code for d in found] == codes
    assert [edit.replacement for d in found[:1] for f in d.fixes for edit in f.edits] == ([fix] if fix else [])


def test_what_python_imports_needs_no_import() -> None:
    """Nor do its uses hide behind it: each says what it is here."""
    found = check_text("import torch\n\ndef f(x: torch.Tensor, y: torch.nn.Parameter):\n    return torch.relu(x)\n")
    assert [d.code for d in found.diagnostics] == ["E0209", "E0204", "E0204", "E0201"]


def test_a_dtype_that_is_not_there() -> None:
    assert "there is no dtype `u128`" in said("y = x", "u128")


def test_names_of_others_are_not_ours_and_lead_to_some_that_are() -> None:
    own = {name for result in library() for name in result.checker.names.names()}
    assert not own & {*NAMES, *WORDS}
    assert {name for name in NAMES.values() if name not in own} <= {"None", "True", "False"}
    assert all(called_here(name) for name in (*NAMES, *WORDS, *by_peer_name()))
    scattered = "the library has no `masked_scatter`: `where` with `gather` by a `cumsum` of the mask"
    assert called_here("masked_scatter") == scattered
    assert str(called_here("lobpcg")).startswith("the library has no `lobpcg`: ")


@pytest.mark.parametrize(("dtype", "statement", "fix"), [
    ("f64", "y = where(x > 0.0, 1.0, -1.0)", "cast(1.0, f64)"),
    ("bf16 @accum(f32)", "y = where(x > 0.0, 1.0, -1.0)", "cast(1.0, bf16 @accum(f32))"),
    ("i32", "y = where(x > 0, 1, 0)", "cast(1, i32)"),
    ("f32", "y = where(x > 0.0, 1.0, -1.0)", "cast(1.0, f32)"),
])  # fmt: skip
def test_a_dtype_that_is_proposed_is_the_one_in_use(dtype: str, statement: str, fix: str) -> None:
    assert f"fix: {fix}" in said(statement, dtype)
