"""An intrinsic that is not known to be safe never reaches LLVM, which would end the process."""

from __future__ import annotations

import pytest

from tesserac.target.compile import CodegenError, check_intrinsics, host_machine
from tesserac.target.parallel import emit_apart

TEXT = """declare double {name}(double)
define double @f(double %x) {{
  %y = call double {name}(double %x)
  ret double %y
}}
"""


@pytest.mark.parametrize("name", ["@llvm.experimental.constrained.sin.f64", '@"llvm.tan.f64"'])
def test_an_unknown_intrinsic_is_refused(name: str) -> None:
    with pytest.raises(CodegenError, match="not known to be safe"):
        check_intrinsics(TEXT.format(name=name))
    with pytest.raises(CodegenError, match="not known to be safe"):
        emit_apart(TEXT.format(name=name), host_machine())


def test_a_known_one_is_taken() -> None:
    assert emit_apart(TEXT.format(name="@llvm.sqrt.f64"), host_machine())


def test_text_that_is_no_module_is_told() -> None:
    with pytest.raises(CodegenError, match="expected"):
        emit_apart("define double @f(", host_machine())
