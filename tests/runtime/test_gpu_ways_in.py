"""Bundles, commands and the prompt on a GPU, over a driver in the memory of the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tests.support.fake_cuda import MACHINE_CODE, FakeCuda
from tests.support.gpu_kernels_by_hand import X, add_to, code_of, computes


@pytest.mark.one_in(2)
def test_a_bundle_for_two_targets(fake: FakeCuda, tmp_path: Path) -> None:
    from tesserac.commands.building import build_bundle
    from tesserac.driver.session import Session

    path = tmp_path / "m.tess"
    path.write_text("def double(x: Tensor[N, f32]) -> Tensor[N, f32]: return x + x\n")
    build_bundle(Session(), str(path), None, "cuda:sm_80,cpu", None, {})
    bundle = path.with_suffix(".tessb")
    assert np.array_equal(tessera.load(bundle).double(X), X + X)
    computes(fake, "double", add_to)
    assert np.array_equal(tessera.load(bundle, device="cuda").double(X), X + X)
    build_bundle(Session(), str(path), None, "cpu", None, {})
    assert code_of(lambda: tessera.load(bundle, device="cuda")) == "E0568"
    build_bundle(Session(), str(path), None, "cuda", None, {})
    assert code_of(lambda: tessera.load(bundle)) == "E0568"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("taken", [True, False])
def test_a_bundle_with_machine_code(
    fake: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """It is loaded as it is; where the driver does not take it, the PTX beside it is assembled."""
    from tesserac.commands.building import build_bundle
    from tesserac.commands.outcome import UsageMistake
    from tesserac.driver.session import Session
    from tesserac.target.nvptx import ptx

    monkeypatch.setattr(ptx, "find_ptxas", lambda: tmp_path)
    monkeypatch.setattr(ptx, "assemble", lambda text, _: ptx.Assembled(MACHINE_CODE + text.encode(), 0, 0, 0, ()))
    path, fake.takes_machine_code = tmp_path / "m.tess", taken
    path.write_text("def double(x: Tensor[N, f32]) -> Tensor[N, f32]: return x + x\n")
    with pytest.raises(UsageMistake):
        build_bundle(Session(), str(path), None, "cpu", None, {}, assembles=True)
    build_bundle(Session(), str(path), None, "cuda:sm_80,cpu", None, {}, assembles=True)
    computes(fake, "double", add_to)
    assert np.array_equal(tessera.load(path.with_suffix(".tessb"), device="cuda").double(X), X + X)
    assert fake.calls["cuModuleLoadDataEx"] == (1 if taken else 2)


def test_commands_run_on_a_device(fake: FakeCuda, tmp_path: Path) -> None:
    from tesserac.commands.running import run_main
    from tesserac.commands.testing import Wanted, run_tests
    from tesserac.diag.render import PLAIN

    path = tmp_path / "m.tess"
    path.write_text("def main() -> Tensor[3, f32]: return ones(3)\ntest \"ones\":\n    x = ones(3)\n")
    assert run_main(str(path), None, device="cuda").status == 0
    assert "main" in fake.launched[0]
    assert "E0561" in run_main(str(path), None, device="cuda:3").remarks
    assert run_tests([str(path)], Wanted("", False, False, PLAIN, "cuda"), lambda text: None) == 0


def test_the_prompt_has_a_device(fake: FakeCuda) -> None:
    from tesserac.repl.engine import Engine
    from tesserac.repl.meta import run_command

    engine = Engine()
    assert run_command(engine, ":device") == "cpu\n"
    assert run_command(engine, ":device cuda").startswith("cuda:0")
    engine.submit("x = ones(3)\n")
    assert fake.launched
    assert code_of(lambda: run_command(engine, ":device cuda:5")) == "E0561"
    assert engine.gpu is not None
