"""Modules: functions compiled on first call, found in the cache, built into bundles; and what importing costs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.artifact import Artifact, read_artifact
from tessera.bundle import Bundle, BundleReader
from tessera.cache import DiskCache
from tessera.errors import Place
from tessera.interface import (
    ArrayKind,
    Content,
    FunctionInterface,
    ModuleInterface,
    Parameter,
    Source,
    Specialization,
    read_interface,
)
from tessera.module import Module, TesseraWarning
from tessera.signature import Site
from tessera.store import Store, file_digest
from tesserac.target.llvm_types import F32, const_float
from tests.support.native_support import BLOCK, Kernel, add_artifact, build
from tests.support.paths import ROOT

f4 = np.float32

SCALE = """
schedule.func @scale {params = ["x"]} {
  ^(%x: memref<[N], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%x, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`ceil_div(N, 256)`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
"""


def scale_artifact(factor: float) -> Artifact:
    def code(k: Kernel) -> None:
        x, z = k.memory
        constant = const_float(F32, factor)
        k.each_element(k.sizes["N"], BLOCK, lambda i: k.store(k.b.fmul(k.load(x, i), constant), z, i))

    return build(SCALE, {"k": code})


INTERFACE = ModuleInterface(
    (
        FunctionInterface("add", (Parameter("x", "tensor"), Parameter("y", "tensor")), "Adds."),
        FunctionInterface("scale", (Parameter("x", "tensor"), Parameter("by", "int", keyword_only=True, default=2))),
        FunctionInterface("times", (Parameter("x", "tensor"), Parameter("by", "open"))),
        FunctionInterface("double", (Parameter("x", "generic"),)),
    )
)


class FakeCompiler:
    """Stands for the compiler: hand-made functions, and a record of what was asked."""

    def __init__(self, interface: ModuleInterface = INTERFACE) -> None:
        self.asked: list[tuple[str, Specialization]] = []
        self._interface = interface

    def interface(self, source: Source) -> ModuleInterface:
        self.asked.append(("interface", ()))
        if "error" in source.text:
            raise TesseraError("E0301", "error[E0301]: sizes differ")
        return self._interface

    def content(self, source: Source, name: str, specialization: Specialization, target: str) -> Content:
        """Lines that begin with `#` say nothing."""
        lines = [line for line in source.text.split("\n") if not line.startswith("#")]
        return Content(repr((name, lines, self._interface.reads)), (Place("m.tess", 1 + source.text.count("\n"), 1),))

    def compile_function(self, source: Source, name: str, specialization: Specialization, target: str) -> Artifact:
        self.asked.append((name, specialization))
        if name == "add":
            return add_artifact()
        factor = dict(specialization).get("by", 2)
        assert isinstance(factor, int | float)
        return scale_artifact(float(factor))


def module(compiler: FakeCompiler, directory: Path, text: str = "source", toolchain: str = "1") -> Module:
    return Module("m", Store(Source("m.tess", text), lambda: compiler, DiskCache(str(directory)), toolchain))


# --- functions -------------------------------------------------------------------------------------------------------


def test_a_large_function_is_kept_behind_its_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessera.store.AT_ONCE", 0)
    monkeypatch.setattr("tessera.keeping.PAUSE", 0.0)
    compiler, x = FakeCompiler(), np.arange(4, dtype=f4)
    for _ in range(2):
        np.testing.assert_array_equal(module(compiler, tmp_path).add(x, x), 2 * x)
        for thread in threading.enumerate():
            if thread.name == "tessera-keep":
                thread.join()
    assert compiler.asked == [("interface", ()), ("add", ())]


def test_a_function_is_compiled_once_and_then_called_directly(tmp_path: Path) -> None:
    compiler = FakeCompiler()
    m = module(compiler, tmp_path)
    add = m.add
    assert compiler.asked == [("interface", ())]
    x = np.arange(4, dtype=f4)
    for _ in range(3):
        np.testing.assert_array_equal(add(x, x), 2 * x)
    assert compiler.asked == [("interface", ()), ("add", ())]
    assert m.add is add and add.__name__ == "add" and repr(add) == "<tessera function add>"
    assert type(add.__call__).__name__ == "builtin_function_or_method"


def test_compile_time_arguments_choose_the_code(tmp_path: Path) -> None:
    compiler = FakeCompiler()
    m = module(compiler, tmp_path)
    x = np.arange(4, dtype=f4)
    np.testing.assert_array_equal(m.scale(x), 2 * x)
    np.testing.assert_array_equal(m.scale(x, by=3), 3 * x)
    np.testing.assert_array_equal(m.scale(x=x, by=2), 2 * x)
    np.testing.assert_array_equal(m.scale(x, by=-1), -x)
    asked = [("scale", (("by", value),)) for value in (2, 3, -1)]
    assert compiler.asked[1:] == asked
    m.times(x, 1)
    m.times(x, True)  # equal to 1 in Python, another argument to the compiler
    assert repr(compiler.asked[-1]) == repr(("times", (("by", True),)))


def test_generic_parameters_follow_their_argument(tmp_path: Path) -> None:
    compiler = FakeCompiler()
    m = module(compiler, tmp_path)
    x = np.arange(4, dtype=f4)
    np.testing.assert_array_equal(m.double(x), 2 * x)
    assert compiler.asked[-1] == ("double", (("x", ArrayKind("float32", 1)),))
    with pytest.raises(TesseraError, match="`x` of `double` must be an array"):
        m.double(3)


@pytest.mark.parametrize(
    ("arguments", "keywords", "text"),
    [
        (("x", 3), {}, "takes 1 argument, but 2 were given"),
        ((), {}, "`x` is missing"),
        (("x",), {"bye": 3}, "no parameter `bye`"),
        (("x",), {"by": [3]}, "`by` of `scale` must be an int, not a list"),
    ],
)
def test_wrong_calls(tmp_path: Path, arguments: tuple[object, ...], keywords: dict[str, object], text: str) -> None:
    with pytest.raises(TesseraError, match=text):
        module(FakeCompiler(), tmp_path).scale(*arguments, **keywords)


def test_many_compilations_are_a_warning(tmp_path: Path) -> None:
    m = module(FakeCompiler(), tmp_path)
    x = np.arange(4, dtype=f4)
    for by in range(8):
        m.scale(x, by=by)
    with pytest.warns(TesseraWarning, match="W0901.*`scale` is compiled for the 9th"):
        m.scale(x, by=8)


def test_an_unknown_function(tmp_path: Path) -> None:
    m = module(FakeCompiler(), tmp_path)
    with pytest.raises(TesseraError, match=r"E0913.*no function `sclae`\n.*did you mean `scale`"):
        _ = m.sclae
    assert not hasattr(m, "other") and dir(m) == ["add", "double", "scale", "times"]


def test_errors_of_the_compiler_pass_through(tmp_path: Path) -> None:
    with pytest.raises(TesseraError, match="E0301") as caught:
        module(FakeCompiler(), tmp_path, "error")
    assert caught.value.code == "E0301"


def test_threads_that_call_first_at_once(tmp_path: Path) -> None:
    m = module(FakeCompiler(), tmp_path)
    x, wrong = np.arange(100, dtype=f4), []

    def caller() -> None:
        if not np.array_equal(m.add(x, x), 2 * x):
            wrong.append(1)

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


# --- the cache -------------------------------------------------------------------------------------------------------


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    x = np.arange(4, dtype=f4)
    module(FakeCompiler(), tmp_path).scale(x, by=3)
    compiler = FakeCompiler()
    m = module(compiler, tmp_path)
    np.testing.assert_array_equal(m.scale(x, by=3), 3 * x)
    assert compiler.asked == []
    m.scale(x, by=4)
    assert compiler.asked == [("scale", (("by", 4),))]


@pytest.mark.parametrize(("text", "toolchain"), [("other", "1"), ("source", "2")])
def test_other_text_or_another_toolchain_is_another_entry(tmp_path: Path, text: str, toolchain: str) -> None:
    module(FakeCompiler(), tmp_path)
    compiler = FakeCompiler()
    module(compiler, tmp_path, text, toolchain)
    assert compiler.asked == [("interface", ())]


def test_a_line_that_says_nothing_leaves_the_code_of_functions(tmp_path: Path) -> None:
    x = np.arange(4, dtype=f4)
    module(FakeCompiler(), tmp_path).add(x, x)
    for said, text in (("", "# new\nsource"), ("add", "source, and more")):
        compiler = FakeCompiler()
        np.testing.assert_array_equal(module(compiler, tmp_path, text).add(x, x), 2 * x)
        assert "".join(name for name, _ in compiler.asked if name != "interface") == said


def test_code_that_tells_of_a_place_that_its_content_lacks_is_kept_for_its_text_alone(tmp_path: Path) -> None:
    made, said = FakeCompiler(), Site("assert", "x > 0", "m.tess", 7, 1)

    def compile_function(*_: object) -> Artifact:
        return add_artifact().with_sites([said])

    made.compile_function = compile_function  # type: ignore[method-assign]
    x, compiler = np.arange(4, dtype=f4), FakeCompiler()
    module(made, tmp_path).add(x, x)
    module(compiler, tmp_path, "# new\nsource").add(x, x)
    assert [name for name, _ in compiler.asked] == ["interface", "add"]


def test_a_changed_import_is_seen(tmp_path: Path) -> None:
    imported = tmp_path / "lib.tess"
    imported.write_text("one")
    x = np.arange(4, dtype=f4)

    def fresh() -> FakeCompiler:
        return FakeCompiler(INTERFACE._replace(reads=((str(imported), file_digest(str(imported))),)))

    module(fresh(), tmp_path / "cache").scale(x)
    compiler = fresh()
    module(compiler, tmp_path / "cache").scale(x)
    assert compiler.asked == []
    imported.write_text("two")
    compiler = fresh()
    module(compiler, tmp_path / "cache").scale(x)
    assert [name for name, _ in compiler.asked] == ["interface", "scale"]


@pytest.mark.parametrize("damage", [b"", b"TESSERA\n", b"garbage" * 100, None])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    x = np.arange(4, dtype=f4)
    module(FakeCompiler(), tmp_path).add(x, x)
    entries = [path for path in tmp_path.glob("*/*")]
    assert len(entries) == 3
    for entry in entries:
        content = entry.read_bytes()
        entry.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    compiler = FakeCompiler()
    np.testing.assert_array_equal(module(compiler, tmp_path).add(x, x), 2 * x)
    assert [name for name, _ in compiler.asked] == ["interface", "add"]
    compiler = FakeCompiler()
    module(compiler, tmp_path).add(x, x)
    assert compiler.asked == []


# --- bundles ---------------------------------------------------------------------------------------------------------


def bundle() -> bytes:
    functions = {("add", (), "cpu"): add_artifact(), ("scale", (("by", 2),), "cpu"): scale_artifact(2.0)}
    return Bundle("m", INTERFACE, functions).to_bytes()


def test_a_bundle_runs_without_a_compiler(tmp_path: Path) -> None:
    file = tmp_path / "m.tessb"
    file.write_bytes(bundle())
    m = tessera.load(file)
    x = np.arange(4, dtype=f4)
    np.testing.assert_array_equal(m.add(x, x), 2 * x)
    np.testing.assert_array_equal(m.scale(x), 2 * x)
    with pytest.raises(TesseraError, match="was not built with `scale` for by = 3"):
        m.scale(x, by=3)
    assert repr(m) == "<tessera module m>"


@pytest.mark.parametrize("length", [0, 10, 47, 48, 200, -1])
def test_a_cut_off_bundle_is_refused(tmp_path: Path, length: int) -> None:
    file = tmp_path / "m.tessb"
    file.write_bytes(bundle()[:length])
    with pytest.raises(TesseraError, match=r"E0910.*cannot use the compiled file") as caught:
        tessera.load(file)
    assert str(file) in str(caught.value)


def test_a_bundle_is_not_an_artifact(tmp_path: Path) -> None:
    with pytest.raises(TesseraError, match=r"holds 'bundle 1', not a function|cannot use"):
        read_artifact(bundle(), "x")
    with pytest.raises(TesseraError, match="cannot use"):
        BundleReader(add_artifact().to_bytes(), "x")


def test_an_interface_survives_its_bytes() -> None:
    read = read_interface(INTERFACE._replace(reads=(("a.tess", "00"),)).to_bytes())
    assert read == INTERFACE._replace(reads=(("a.tess", "00"),))


# --- files and imports -----------------------------------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TesseraError, match=r"E0901.*cannot read .*No such file"):
        tessera.load(tmp_path / "none.tess")
    (tmp_path / "bad.tess").write_bytes(b"\xff\xfe")
    with pytest.raises(TesseraError, match=r"E0902.*not UTF-8"):
        tessera.load(tmp_path / "bad.tess")


def python(code: str, **environment: str) -> str:
    path = os.pathsep.join([str(ROOT / "runtime"), str(ROOT)])
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip
    return result.stdout.strip()


def test_importing_tessera_imports_nothing_heavy() -> None:
    heavy = python(
        "import sys, tessera; print([m for m in ('numpy', 'tesserac', 'llvmlite', 'lark') if m in sys.modules])"
    )
    assert heavy == "[]"


@pytest.mark.one_in(2)
def test_running_a_bundle_imports_no_compiler(tmp_path: Path) -> None:
    file = tmp_path / "m.tessb"
    file.write_bytes(bundle())
    code = f"""
import sys, numpy as np, tessera
x = np.ones(3, "f4")
print(tessera.load({str(file)!r}).add(x, x).tolist())
print([m for m in sys.modules if m.split(".")[0] in ("tesserac", "llvmlite", "lark", "ml_dtypes")])
"""
    assert python(code) == "[2.0, 2.0, 2.0]\n[]"
