"""Modules that LLVM compiles at once: a module in parts does what the whole one does, in any number of threads."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from threading import Event, Thread

import pytest

from tessera.loader import load_image
from tessera.threads import resolve_libc
from tesserac.target import parallel
from tesserac.target.compile import CodegenError, data_layout, emit_object, host_machine, parse, passes
from tesserac.target.emit import Module
from tesserac.target.link import link
from tesserac.target.llvm_types import I64, PTR, Value, const_i64
from tesserac.target.parallel import Job, Workers, emit_apart
from tests.support.paths import ROOT


def example() -> Module:
    """f0(x) = x, f1(x) = f0(x) * 3 + 1, ... of which two say the same; `all` adds a number that is kept in memory."""
    module = Module("test", host_machine().triple, data_layout(host_machine()))
    kept = module.variable("kept", I64, "1000")
    functions = [module.function("f0", I64, [I64], linkage="internal")]
    functions[0].builder.ret(functions[0].args[0])
    for number in range(1, 8):
        made = module.function(f"f{number}", I64, [I64], linkage="internal")
        factor = const_i64(5 if number in (3, 4) else 3)
        inner = made.builder.call(functions[2 if number == 4 else -1], made.args)
        made.builder.ret(made.builder.add(made.builder.mul(inner, factor), const_i64(1)))
        functions.append(made)
    last = module.function("all", I64, [I64])
    b = last.builder
    b.ret(b.add(b.load(I64, kept, 8), b.call(functions[-1], last.args)))
    module.merge_equal()
    return module


def value_of(objects: list[bytes], x: int, name: str = "all") -> int:
    image = load_image(link(objects), resolve_libc)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(image.address(name))
    return int(run(x))


@pytest.mark.parametrize("cores", [1, 3, 16])
def test_parts_are_the_whole(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: cores)
    whole, texts = example(), example().parts(1, 4)
    assert len(texts) == 4 and texts == example().parts(1, 4)
    assert [text.count("= internal global i64 1000") for text in texts] == [1, 0, 0, 0]
    assert sum(text.count("@f4 = alias") for text in texts) == 1, "beside the function whose name it is"
    for text in texts:
        parse(text)
    workers, kept = Workers(), list[bytes]()
    jobs = [workers.start(Job(text, host_machine(), keep=kept.append)) for text in texts]
    objects = [job.object() for job in jobs]
    assert sorted(kept) == sorted(objects), "each was made once"
    assert objects == [emit_apart(text, host_machine()) for text in texts]
    assert value_of(objects, 2) == value_of([emit_object(str(whole), host_machine())], 2) > 1000


def test_what_is_begun_before_the_rest_is_written_is_part_of_the_whole() -> None:
    module, machine = example(), host_machine()
    assert module.begin(100_000, ()) == [], "too little for a thread"
    begun = module.begin(60, {"f5"})
    assert 1 < len(begun) < 7, "of about 60 characters each"
    assert all(sum(said in text for text in begun) == 1 for said in ("@f4 = alias", "declare hidden i64 @f5"))
    assert module.begin(1, {"f5"}) == [], "one is held, and one reads a variable"
    (rest,) = module.parts(100_000, 4)
    assert rest.count("define ") == 2 and "declare hidden i64 @f4" in rest
    objects = [emit_apart(text, machine) for text in (*begun, rest)]
    assert value_of(objects, 2) == value_of([emit_object(str(example()), machine)], 2)


def reading(module: Module, name: str, place: Value) -> None:
    """name(x) = x + what is kept at a place."""
    made = module.function(name, I64, [I64])
    b = made.builder
    b.ret(b.add(made.args[0], b.load(I64, place, 8)))


def test_who_reads_a_variable_has_no_others_begun_alone() -> None:
    """What waits for the end anyway does not count: behind 2,000 characters of it each kernel was begun by itself."""
    module = example()
    begun = module.begin(1, ())
    for number in range(40):
        reading(module, f"g{number}", Value(PTR, "@kept"))
    made = module.function("h0", I64, [I64])
    made.builder.ret(made.args[0])
    assert begun and module.begin(1000, ()) == [] == module.begin(1000, ())
    (text,) = module.begin(made.size, ())
    assert text.count("define ") == 1 and "@h0" in text


def test_who_reads_a_constant_is_begun_with_one_of_its_own() -> None:
    module, machine = example(), host_machine()
    five = module.variable("five", I64, "5", constant=True)
    for name in ("g0", "g1"):
        reading(module, name, five)
    last = module.function("sum", I64, [I64])
    inner = [last.builder.call(module.find_function(name), last.args) for name in ("all", "g0", "g1")]
    last.builder.ret(last.builder.add(last.builder.add(inner[0], inner[1]), inner[2]))
    whole, begun = str(module), module.begin(40, ("sum",))
    assert [text.count("internal constant i64 5") for text in begun if "@five" in text] == [1, 1]
    objects = [emit_apart(text, machine) for text in (*begun, *module.parts(100_000, 4))]
    assert value_of(objects, 2, "sum") == value_of([emit_object(whole, machine)], 2, "sum") > 1000


def test_a_small_module_is_one() -> None:
    assert example().parts(100_000, 4) == [str(example())]


def test_a_fault_reaches_who_waits() -> None:
    workers = Workers()
    good, bad = (workers.start(Job(text, host_machine())) for text in (str(example()), "define nothing"))
    with pytest.raises(CodegenError, match="expected"):
        bad.object()
    assert good.object().startswith(b"\x7fELF")


def test_who_wants_other_passes_waits() -> None:
    """Switches of LLVM belong to the process: nobody changes them while another compiles."""
    inside, seen = Event(), list[str]()

    def other() -> None:
        with passes(scheduled=True):
            seen.append("other")
        inside.set()

    thread = Thread(target=other)
    with passes(scheduled=False):
        with passes(scheduled=False):
            seen.append("same")
        thread.start()
        assert not inside.wait(0.05)
        seen.append("first")
    assert inside.wait(10)
    thread.join()
    assert seen == ["same", "first", "other"]


ENDS_AT_ONCE = """
from threading import Event
from time import sleep
from tesserac.target import parallel
from tesserac.target.compile import host_machine

begun = Event()

def emitted(text, *_):
    print("begun", text, flush=True)
    begun.set()
    sleep(0.5)
    print("ended", text, flush=True)
    return b""

parallel.emit_apart, parallel.available_cores = emitted, lambda: 2
workers = parallel.Workers()
for text in ("first", "second"):
    workers.start(parallel.Job(text, host_machine()))
begun.wait()
raise SystemExit("a mistake")
"""


def test_a_process_ends_after_what_llvm_has_begun_and_begins_no_more() -> None:
    """LLVM aborts where the process takes down under it what belongs to all of it."""
    done = subprocess.run([sys.executable, "-c", ENDS_AT_ONCE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split("\n")[:-1]) == (1, ["begun first", "ended first"]), done.stderr
