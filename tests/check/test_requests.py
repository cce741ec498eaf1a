"""What a program asks of where and how it runs is taken, or refused, or told by `inspect`: never dropped in silence."""

from __future__ import annotations

import pytest

import tessera
from docs.where import ASKS, MESH, Row
from tesserac.base.source import SourceFile
from tesserac.commands.inspection import about
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.target.cpu.build import AARCH64
from tesserac.target.nvptx.build import PLATFORMS
from tests.runtime.test_runtime_codes import programs
from tests.support.checking import diagnose

pytestmark = pytest.mark.slow

TAKEN = (
    "`with device(cpu)`", "`@kernel.schedule(s)`", "`f.with_schedule(s)`", "`tile_shape=`", "`@kernel(implements=g)`",
    "`@kernel.autotune(...)`", "`numerics(fast)`",
)  # fmt: skip
REFUSED = {
    "`with device(gpu)`": "E0906",
    "`T @device(gpu)`": "E0906",
    "collectives across several devices": "E0905",
    "`KVCache[...] @rolling_window`": "E0907",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ASKS, ids=lambda row: row.what)
def test_what_is_asked_has_its_effect_or_is_told(row: Row, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "f.tess"
    path.write_text(row.program + "\n")
    if row.what in REFUSED:
        assert compiled(row.program + "\n", gpu=False) == REFUSED[row.what]
        return
    text = about(Session(), f"{path}:f", "cpu:aarch64")
    assert ("not taken: " in text) == (row.what not in TAKEN)


def compiled(text: str, gpu: bool) -> str:
    """The code of the error that compiling `f` ends with; nothing where it does not."""
    session, source = Session(), SourceFile("f.tess", text)
    function = session.function(source, "f")
    try:
        if gpu:
            session.gpu_program(source, function, PLATFORMS["sm_90a"])
        else:
            session.artifact(source, function, AARCH64)
    except ProgramError as problem:
        return problem.diagnostics[0].code
    return ""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("device", ["cpu", "gpu", "gpu[7]"])
@pytest.mark.parametrize("where", ["body", "callee", "branch"])
def test_a_part_runs_where_it_is_placed_or_not_at_all(device: str, gpu: bool, where: str) -> None:
    placed = f"    with device({device}): x = x + 1.0\n"
    texts = {
        "body": f"def f(x: Tensor[N, f32]):\n{placed}    return x\n",
        "callee": f"def g(x: Tensor[N, f32]):\n{placed}    return x\ndef f(x: Tensor[N, f32]): return g(x)\n",
        "branch": f"def f(x: Tensor[N, f32]):\n    if N > 3:\n    {placed}    return x\n",
    }
    expected = "" if device.startswith("gpu") == gpu else "E0906"
    assert compiled(texts[where], gpu) == expected


def test_a_part_that_no_call_reaches_asks_for_nothing() -> None:
    text = "def f(x: Tensor[N, f32]):\n    if False:\n        with device(gpu): x = x + 1.0\n    return x\n"
    assert compiled(text, gpu=False) == ""


KERNEL = "{decorator}\ndef f(x: KTile[M, N, f32]) -> Tile[M, N, f32]:\n" + (
    "    T = tile.context()\n    return tile.load(x, rows=T.m, cols=T.n{hints})\n"
)
PMAP = MESH + "def g(x: Tensor[N, f32]): return x\ndef f(x: Tensor[{size}, N, f32]): return pmap(g, mesh=mesh)(x)\n"
LAYOUT = MESH + "def f(x: Tensor[N, f32]):\n    with mesh(layout={layout}): x = x + x\n    return x\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E0603", "def f(x: Tensor[N, f32] @device(tpu)): return x"),
        ("E0603", "def f(x: Tensor[N, f32] @device): return x"),
        ("E0603", "def f(x: Tensor[N, f32] @device(cpu[1])): return x"),
        ("E0603", "def f(x: OptimizerState[Tensor[N, f32]] @paged(3)): return x.step"),
        ("E0603", "struct S[N]:\n    x: Tensor[N, f32] @device(gpu)"),
        ("E0603", "param w: Tensor[N, f32] @device(gpu)"),
        ("E0603", "def f(x: Tensor[N, f32]):\n    with device(tpu): x = x + x\n    return x"),
        ("E0603", "def f(x: Tensor[N, f32]):\n    gpu = 3\n    with device(gpu): x = x + x\n    return x"),
        ("E0507", KERNEL.format(decorator="@kernel", hints=', vector="banana"')),
        ("E0507", KERNEL.format(decorator="@kernel", hints=", vector=3")),
        ("E0507", KERNEL.format(decorator="@kernel", hints=", prefetch=-17")),
        ("E0508", KERNEL.format(decorator="@kernel.autotune(budget_ms=-5)", hints="")),
        ("E0508", KERNEL.format(decorator='@kernel.autotune(cache="")', hints="")),
        ("E0508", KERNEL.format(decorator='@kernel(target="cuda")', hints="")),
        ("E0508", '@graph.module("")\ndef f(x: Tensor[N, f32]): return x'),
        ("E0508", "@graph.module\ndef f(x: Tensor[N, f32]): return x"),
        ("E0508", "@jit(banana=3)\ndef f(x: Tensor[N, f32]): return x"),
        ("E0204", "def f(x: OptimizerState[Tensor[N, f32]] @paged @banana): return x.step"),
        ("E0604", PMAP.format(size=3)),
        ("E0604", PMAP.format(size=4).replace('axes=["dp"], devices=range(8)', 'axes=["dp", "tp"], shape=[2, 4]')),
        ("E0604", LAYOUT.format(layout='{"batch": "shard"}').replace("devices=range(8)", "shape=[-2]")),
        ("E0604", LAYOUT.format(layout='{"banana": 17}')),
        ("E0604", LAYOUT.format(layout='{"batch": "tp"}')),
        ("E0604", LAYOUT.format(layout='dist.ShardSpec(("row",), ("tp",))')),
    ],
)
def test_what_cannot_be_asked_is_an_error(code: str, text: str) -> None:
    assert [d.code for d in diagnose(SourceFile("f.tess", text + "\n"))] == [code]


@pytest.mark.parametrize("size", [8, 16, "8*K"])
def test_devices_share_a_mapped_dim_equally(size: object) -> None:
    assert not diagnose(SourceFile("f.tess", PMAP.format(size=size)))


def test_a_mapped_dim_of_any_size_is_asked_on_entry() -> None:
    session, source = Session(), SourceFile("f.tess", PMAP.format(size="M"))
    assert [(guard.kind, guard.text) for guard in session.function(source, "f").guards] == [("divides", "M % 8 == 0")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            KERNEL.format(decorator='@kernel.autotune(space=dict(BM=[64]), cache="/nonexistent/x")', hints=""),
            'not taken: cache="/nonexistent/x": there is no such file',
        ),
        (
            "def g(x: Tensor[N, f32]): return x + x\n"
            "def f(x: Tensor[N, f32]): return g.with_schedule(Schedule(block=(64, 64)))(x)\n",
            "not taken: the schedule of `g`",
        ),
        ("def f(x: Tensor[N, f32] @paged): return x + x\n", "not taken: `@paged`"),
    ],
)
def test_what_nothing_follows_from_is_told(text: str, told: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "f.tess"
    path.write_text(text)
    assert told in about(Session(), f"{path}:f", "cpu:aarch64")


def test_the_name_of_a_graph_is_shown(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "f.tess"
    path.write_text('@graph.module("attention")\ndef f(x: Tensor[N, f32]): return x + x\n')
    assert "graph: attention\n" in about(Session(), f"{path}:f", "cpu:aarch64")


@pytest.mark.parametrize("code", ["E0906", "E0907"])
def test_the_pages_programs_do_what_they_say(code: str) -> None:
    found = programs(code)
    with pytest.raises(tessera.TesseraError) as caught:
        exec(found["Fails"], {})
    assert caught.value.code == code
    exec(found["Fixed"], {})
