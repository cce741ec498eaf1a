"""What `--emit asm` shows is the code that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tesserac import cli
from tests.support import levels

PRODUCT = """def f(a: Tensor[M, K, f32], b: Tensor[K, N, f32]):
    return a @ b
"""


@pytest.mark.one_in(6)
def test_a_register_block_is_in_registers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM keeps it there only where it schedules instructions, as it does for what many programs share. The last
    columns have a block of one vector, in a panel that is as wide as others."""
    monkeypatch.setenv(levels.VARIABLE, "3")
    source = tmp_path / "product.tess"
    source.write_text(PRODUCT, encoding="utf-8")
    words = ["build", str(source), "--emit", "asm", "--target", "cpu:x86-64-v4"]
    assert cli.main(cli.compiler, "tesserac", words) == 0
    shown = capsys.readouterr().out
    block, edge = (
        shown.split(f"micro_f32_{name}_ahead:")[1].split(".size")[0].splitlines()
        for name in ("12x32", "12x16_by_1_12_32")
    )
    spilled = [line for line in block if "%zmm" in line and "(%rsp)" in line]
    assert sum("vfmadd" in line for line in block) >= 4 * 24 and not spilled
    assert 4 * 12 <= sum("vfmadd" in line for line in edge) < 4 * 24


@pytest.mark.parametrize(("size", "masked"), [(17, False), (18, True)])
def test_one_narrow_element_is_not_stored_through_a_mask(
    size: int, masked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LLVM would store 32 bits for it, over the element behind: see groups.py, Note [A mask of one lane]."""
    source = tmp_path / "narrow.tess"
    source.write_text(f"def f(x: Tensor[M, {size}, bf16]): return softmax(x)\n", encoding="utf-8")
    words = ["build", str(source), "--emit", "llvm", "--target", "cpu:x86-64-v4"]
    assert cli.main(cli.compiler, "tesserac", words) == 0
    assert ("call void @llvm.masked.store.v16i16" in capsys.readouterr().out) == masked
