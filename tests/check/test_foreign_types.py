"""Types as JAX, jaxtyping, PyTorch and Python write them: one error, whose fix makes them the type that is meant."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.render import apply_edits
from tests.support.checking import diagnose

MEANT = {
    "f32[B, N]": "Tensor[B, N, f32]",
    "f32[B][N]": "Tensor[B, N, f32]",
    "Tensor[f32, B, N]": "Tensor[B, N, f32]",
    "Tensor[float, B, N]": "Tensor[B, N, f32]",
    "Tensor(B, N, f32)": "Tensor[B, N, f32]",
    'Tensor["b n", f32]': "Tensor[B, N, f32]",
    "Tensor[[B, 3], f32]": "Tensor[B, 3, f32]",
    "Tensor[(B, N), f32]": "Tensor[B, N, f32]",
    "Tensor[B, N, dtype=f32]": "Tensor[B, N, f32]",
    "Tensor[B, N, torch.bfloat16]": "Tensor[B, N, bf16]",
    "Tensor[B, N, double]": "Tensor[B, N, f64]",
    "Tensor[B, N, int]": "Tensor[B, N, i32]",
    'Float[Array, "b n"]': "Tensor[B, N, f32]",
    'BFloat16[Array, "b n"]': "Tensor[B, N, bf16]",
    'Int64[Tensor, "b"]': "Tensor[B, i64]",
    "torch.Tensor": "Tensor",
    "jnp.ndarray": "Tensor",
    "Matrix[M, N]": "Tensor[M, N, f32]",
    "double": "f64",
    "Optional[Tensor[N, f32]]": "Tensor[N, f32] | None",
    "Union[None, Tensor[N, f32]]": "Tensor[N, f32] | None",
    "tuple[int, f32]": "(int, f32)",
    "Tuple[f32]": "(f32,)",
    "Callable[[Tensor[N, f32], f32], f32]": "fn(Tensor[N, f32], f32) -> f32",
    "list[f32]": "List[L, f32]",
    "Sequence[Tensor[L, f32]]": "List[Layers, Tensor[L, f32]]",
    "List[Tensor[N, f32]]": "List[L, Tensor[N, f32]]",
}
TOLD = ("Any", "Callable", "dict[str, f32]", "tuple[f32, ...]")
PROGRAM = "def f(x: {}) -> float:\n    return 1.0\n"


@pytest.mark.parametrize("written", MEANT)
def test_the_fix_writes_what_is_meant(written: str) -> None:
    text = PROGRAM.format(written)
    (said,) = diagnose(SourceFile("example.tess", text))
    fixed = apply_edits(text, list(said.fixes[0].edits))
    assert (said.code, fixed) == ("E0204", PROGRAM.format(MEANT[written]))
    assert not diagnose(SourceFile("example.tess", fixed))


@pytest.mark.parametrize("written", TOLD)
def test_what_has_no_one_meaning_is_told(written: str) -> None:
    (said,) = diagnose(SourceFile("example.tess", PROGRAM.format(written)))
    assert said.code == "E0204"
    assert said.notes
    assert not said.fixes


def test_nothing_else_follows_from_how_a_type_is_written() -> None:
    text = "def f(x: f32[B, N], w: Tensor[f32, N, K]) -> f32[B, K]:\n    y = x.reshape(B, N) @ w\n    return y + z\n"
    codes = [said.code for said in diagnose(SourceFile("example.tess", text))]
    assert codes == ["E0204", "E0204", "E0204", "E0201"]


def test_a_size_that_is_named_like_a_dtype_elsewhere_is_a_size() -> None:
    text = "def f(half: int, x: Tensor[half, f32], y: Tensor[2, half]) -> float:\n    return 1.0\n"
    assert not diagnose(SourceFile("example.tess", text))


def test_sizes_in_small_letters_are_renamed_everywhere() -> None:
    text = (
        "def f(x: Tensor[b, n, f32]) -> Tensor[b, n, f32]:\n    return x.reshape(b, n)\n"
        "def g(x: Tensor[b, f32]) -> Tensor[b, f32]:\n    return x\n"
    )
    said = diagnose(SourceFile("example.tess", text))
    assert [d.fixes[0].title for d in said] == ["call it `B`", "call it `N`"]
    fixed = apply_edits(text, [edit for d in said for edit in d.fixes[0].edits])
    assert not diagnose(SourceFile("example.tess", fixed))


def test_sizes_of_a_struct_are_declared_by_the_fix() -> None:
    for head in ("struct Linear:", "struct Linear[D]:"):
        text = f"{head}\n    w: Tensor[D, H, f32]\n    b: Tensor[H, f32]\n"
        said = diagnose(SourceFile("example.tess", text))
        fixed = apply_edits(text, list(said[0].fixes[-1].edits))
        assert fixed.startswith("struct Linear[D, H]:")
        assert not diagnose(SourceFile("example.tess", fixed))


@pytest.mark.parametrize("written", ["list", "List", "nn.ModuleList"])
def test_the_number_of_a_list_is_a_size_of_its_struct(written: str) -> None:
    method = "    def apply(self, x: Tensor[B, D, f32]):\n        for l in self.layers: x = l(x)\n        return x\n"
    text = f"struct Net[D]:\n    layers: {written}[Linear[D, D]]\n{method}"
    (said,) = diagnose(SourceFile("example.tess", text))
    fixed = apply_edits(text, list(said.fixes[0].edits))
    assert fixed == f"struct Net[D, L]:\n    layers: List[L, Linear[D, D]]\n{method}"
    assert not diagnose(SourceFile("example.tess", fixed))


@pytest.mark.parametrize(("count", "fact"), [("8", "D % 8 == 0"), ("n", "D % n == 0")])
def test_heads_that_divide_a_size_are_a_fact(count: str, fact: str) -> None:
    text = f"def f(x: Tensor[B, S, D, f32], n: int):\n    return x.view(B, S, {count}, D // {count}) * float(n)\n"
    (said,) = diagnose(SourceFile("example.tess", text))
    fixed = apply_edits(text, list(said.fixes[0].edits))
    assert f"where {fact}:" in fixed
    assert not diagnose(SourceFile("example.tess", fixed))


def test_a_result_with_other_sizes_may_be_declared_with_all_of_them() -> None:
    text = "def f(x: Tensor[B, C, H, W, f32]) -> Tensor[B, C, H, W, f32]:\n    return max_pool2d(x, 2)\n"
    (said,) = diagnose(SourceFile("example.tess", text))
    fixed = apply_edits(text, list(said.fixes[-1].edits))
    assert not diagnose(SourceFile("example.tess", fixed))


def test_names_of_modules_are_told_also_where_only_a_call_knows_the_types() -> None:
    text = "def f(x):\n    return x * math.pi + torch.relu(x)\n"
    said = diagnose(SourceFile("example.tess", text))
    assert [edit.replacement for d in said for fix in d.fixes for edit in fix.edits] == ["PI", "relu"]


def test_e_is_a_power() -> None:
    """`e` is whatever the program calls so: without its module the name would be another one."""
    for module in ("np", "math", "torch"):
        found = diagnose(SourceFile("example.tess", f"def f(x: Tensor[N, f32]):\n    return x * {module}.e\n"))
        assert "here it is `exp(1.0)`" in found[0].notes and not found[0].fixes, module


def test_a_constant_of_the_library_is_not_edited() -> None:
    """`NAN` has no dtype, and its line is none of the program's."""
    [found] = diagnose(SourceFile("example.tess", "def f(x: Tensor[N, f32]):\n    return where(x > 0.0, NAN, INF)\n"))
    assert found.code == "E0406" and not found.fixes
    assert "`cast(v, f32)` has one, where v is a number or the name of one" in found.notes
