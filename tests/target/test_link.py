"""Objects to images: relocations, layout, imports; and images to running code."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.errors import TesseraError
from tessera.image import SEGMENT_ALIGNMENT, Image
from tessera.loader import LIBC, LoadedImage, load_image
from tessera.threads import resolve_libc
from tesserac.target.compile import AARCH64, X86_64_V3, Machine, emit_object, host_machine
from tesserac.target.elf import LinkError, read_object
from tesserac.target.link import link
from tesserac.target.relocate import Needs, jump_through, kind_of
from tests.support.native_support import add_artifact

MACHINES = [X86_64_V3, AARCH64]

EVERYTHING = """
@counter = internal global i64 7
@zeros = internal global [64 x i64] zeroinitializer, align 64
@visible = global i64 40
@constants = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@callback = internal global ptr @helper
@import.libc.abs = hidden externally_initialized global ptr null
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal i64 @helper(i64 %n) noinline {
  %p = getelementptr i64, ptr @constants, i64 %n
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @constant(i64 %n) {
  %f = load ptr, ptr @callback
  %v = call i64 %f(i64 %n)
  ret i64 %v
}
define i64 @count() {
  %v = load i64, ptr @counter
  %w = add i64 %v, 1
  store i64 %w, ptr @counter
  ret i64 %w
}
define i64 @through_table() {
  %v = load i64, ptr @visible
  ret i64 %v
}
define i32 @absolute(i32 %n) {
  %f = load ptr, ptr @import.libc.abs
  %v = call i32 %f(i32 %n)
  ret i32 %v
}
define i64 @last_zero() {
  %p = getelementptr [64 x i64], ptr @zeros, i64 0, i64 63
  %v = load i64, ptr %p
  %w = add i64 %v, 5
  store i64 %w, ptr %p
  ret i64 %w
}
define void @fill(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 65, i64 %n, i1 false)
  ret void
}
define void @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
define i64 @switch(i64 %n) {
  switch i64 %n, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e ]
a: ret i64 101
b: %x = call i64 @count()
  ret i64 %x
c: ret i64 303
d: %y = call i64 @constant(i64 3)
  ret i64 %y
e: ret i64 505
other: ret i64 0
}
"""


def compiled(text: str, machine: Machine) -> bytes:
    return emit_object(f'target triple = "{machine.triple}"\n{text}', machine)


def loaded(*texts: str) -> LoadedImage:
    return load_image(link([compiled(text, host_machine()) for text in texts]), resolve_libc)


def function(image: LoadedImage, name: str, result: type, *arguments: type) -> ctypes._CFunctionType:
    return ctypes.CFUNCTYPE(result, *arguments)(image.address(name))


def test_an_image_runs_wherever_it_is_mapped() -> None:
    images = [loaded(EVERYTHING), loaded(EVERYTHING)]
    assert images[0].base != images[1].base
    for image in images:
        assert [function(image, "constant", ctypes.c_int64, ctypes.c_int64)(i) for i in range(4)] == [10, 20, 30, 40]
        assert function(image, "count", ctypes.c_int64)() == 8
        assert function(image, "count", ctypes.c_int64)() == 9
        assert function(image, "through_table", ctypes.c_int64)() == 40
        assert function(image, "absolute", ctypes.c_int32, ctypes.c_int32)(-3) == 3
        assert function(image, "last_zero", ctypes.c_int64)() == 5
        switch = function(image, "switch", ctypes.c_int64, ctypes.c_int64)
        assert [switch(i) for i in range(6)] == [101, 10, 303, 40, 505, 0]


def test_memory_functions_reach_the_c_library() -> None:
    image = loaded(EVERYTHING)
    source, target = ctypes.create_string_buffer(5000), ctypes.create_string_buffer(5000)
    function(image, "fill", None, ctypes.c_void_p, ctypes.c_int64)(ctypes.addressof(source), 4000)
    assert source.raw == b"A" * 4000 + bytes(1000)
    copy = function(image, "copy", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    copy(ctypes.addressof(target), ctypes.addressof(source), 4500)
    assert target.raw == source.raw


def test_objects_refer_to_each_other() -> None:
    image = loaded(
        "declare i64 @other(i64)\ndefine i64 @first(i64 %n) { %v = call i64 @other(i64 %n)\n ret i64 %v }",
        "@table = global [2 x i64] [i64 5, i64 6]\n"
        "define i64 @other(i64 %n) { %p = getelementptr i64, ptr @table, i64 %n\n"
        " %v = load i64, ptr %p\n ret i64 %v }",
    )
    first = function(image, "first", ctypes.c_int64, ctypes.c_int64)
    assert (first(0), first(1)) == (5, 6)


def test_objects_may_reach_the_same_outside() -> None:
    slot = "@import.libc.abs = hidden externally_initialized global ptr null\n"
    body = "%f = load ptr, ptr @import.libc.abs\n %v = call i32 %f(i32 %n)\n ret i32 %v"
    image = loaded(*(f"{slot}define i32 @{name}(i32 %n) {{ {body} }}" for name in ("first", "second")))
    for name in ("first", "second"):
        assert function(image, name, ctypes.c_int32, ctypes.c_int32)(-3) == 3


def test_tables_lie_beside_the_code_on_their_alignment() -> None:
    text = "@table = external hidden constant [4 x i64], align 64\ndefine ptr @place() { ret ptr @table }"
    data = b"".join(number.to_bytes(8, "little") for number in (7, 8, 9, 10))
    tables = {"before": (b"x", 1), "table": (data, 64)}
    image = load_image(link([compiled(text, host_machine())], tables), resolve_libc)
    place = function(image, "place", ctypes.c_void_p)()
    assert place % 64 == 0 and ctypes.string_at(place, 32) == data
    with pytest.raises(LinkError, match="nothing defines table"):
        link([compiled(text, host_machine())])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.triple.split("-")[0])
def test_the_layout_keeps_code_and_variables_apart(machine: Machine) -> None:
    data = compiled(EVERYTHING, machine)
    kinds = [kind_of(read_object(data).machine, r.kind) for r in read_object(data).relocations]
    assert {kind.needs for kind in kinds} == set(Needs)  # the program needs every kind of reference
    image = link([data])
    assert image.data_offset % SEGMENT_ALIGNMENT == 0
    assert {name for name, _ in image.imports} == {"libc.abs", "libc.memcpy", "libc.memset"}
    names = {"absolute", "constant", "copy", "count", "fill", "last_zero", "switch", "through_table", "visible"}
    assert {name for name, _ in image.symbols} == names
    assert image.symbol("visible") >= image.data_offset > image.symbol("count")
    assert len(image.data) < image.size - image.data_offset  # the zeros are not stored
    for slot in image.slots:
        (target,) = struct.unpack_from("<Q", image.data, slot - image.data_offset)
        assert target < image.size


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.triple.split("-")[0])
def test_a_reference_goes_where_its_symbol_is(machine: Machine) -> None:
    """Calls between functions, decoded by hand from the finished image."""
    text = "define internal i64 @f() noinline { ret i64 1 }\ndefine i64 @g() { %v = call i64 @f()\n ret i64 %v }"
    image = link([compiled(text, machine)])
    f = 0  # the first function of the only code section
    g = image.symbol("g")
    if image.machine == "aarch64":
        words = struct.unpack_from(f"<{(len(image.text) - g) // 4}I", image.text, g)
        at, word = next((i, w) for i, w in enumerate(words) if w >> 26 in (0b100101, 0b000101))
        distance = (word & 0x3FFFFFF) - ((word & 0x2000000) << 1)
        assert g + 4 * at + 4 * distance == f
    else:
        at = next(i for i in range(g, len(image.text)) if image.text[i] in (0xE8, 0xE9))
        (distance,) = struct.unpack_from("<i", image.text, at + 1)
        assert at + 5 + distance == f


def test_an_undefined_name_is_an_error() -> None:
    text = "declare i64 @nowhere()\ndefine i64 @f() { %v = call i64 @nowhere()\n ret i64 %v }"
    with pytest.raises(LinkError, match="nothing defines nowhere"):
        link([compiled(text, host_machine())])


def test_a_name_is_defined_once() -> None:
    text = compiled("define void @f() { ret void }", host_machine())
    with pytest.raises(LinkError, match="`f` is defined twice"):
        link([text, text])


def test_objects_of_two_machines_do_not_mix() -> None:
    texts = [compiled(f"define void @{name}() {{ ret void }}", m) for name, m in zip("fg", MACHINES, strict=True)]
    with pytest.raises(LinkError, match=r"aarch64.*x86_64"):
        link(texts)


def test_other_files_are_not_objects() -> None:
    with pytest.raises(LinkError, match="not a 64-bit"):
        read_object(b"\x7fELF\x01\x01" + bytes(100))


def test_a_relocation_without_a_rule_is_an_error() -> None:
    with pytest.raises(LinkError, match="has no rule"):
        kind_of("x86_64", 10)


# --- relocations, against a decoder of their instructions ------------------------------------------------------------

offsets = st.integers(0, (1 << 31) - 1)


def decode_immediate(word: int) -> int:
    value = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    return value - (1 << 21 if value >> 20 else 0)


@given(offsets, offsets)
def test_page_and_offset_meet_at_the_target(place: int, target: int) -> None:
    place, target = place & ~3, target & ~7
    code = bytearray(struct.pack("<2I", 0x90000000, 0xF9400000))
    kind_of("aarch64", 275).patch(code, 0, place, target)
    kind_of("aarch64", 286).patch(code, 4, place + 4, target)
    adrp, ldr = struct.unpack("<2I", code)
    page = (place >> 12) + decode_immediate(adrp) << 12
    assert page + ((ldr >> 10 & 0xFFF) << 3) == target
    assert adrp & ~0x60FFFFE0 == 0x90000000 and ldr & ~0x3FFC00 == 0xF9400000


@given(st.integers(-(1 << 27), (1 << 27) - 4), st.sampled_from([282, 283]))
def test_branches_count_instructions(distance: int, number: int) -> None:
    distance &= ~3
    code = bytearray(struct.pack("<I", 0x94000000))
    kind_of("aarch64", number).patch(code, 0, 1 << 28, (1 << 28) + distance)
    (word,) = struct.unpack("<I", code)
    field = word & 0x3FFFFFF
    assert 4 * (field - (1 << 26 if field >> 25 else 0)) == distance


def test_what_a_field_cannot_hold_is_an_error() -> None:
    for machine, number, distance in (("aarch64", 283, 1 << 27), ("aarch64", 280, 1 << 20), ("x86_64", 2, 1 << 31)):
        with pytest.raises(LinkError, match="does not reach"):
            kind_of(machine, number).patch(bytearray(8), 0, 0, distance)
    with pytest.raises(LinkError, match="not aligned"):
        kind_of("aarch64", 286).patch(bytearray(4), 0, 0, 4)


@given(offsets, offsets)
def test_a_jump_goes_through_its_slot(place: int, slot: int) -> None:
    place, slot = place & ~15, slot & ~7
    code = jump_through("x86_64", place, slot)
    assert code[:2] == b"\xff\x25" and struct.unpack_from("<i", code, 2)[0] + place + 6 == slot
    adrp, ldr, *_ = struct.unpack("<4I", jump_through("aarch64", place, slot))
    assert ((place >> 12) + decode_immediate(adrp) << 12) + ((ldr >> 10 & 0xFFF) << 3) == slot


# --- images and loading ----------------------------------------------------------------------------------------------


def test_an_image_refuses_tables_that_point_outside() -> None:
    image = link([compiled(EVERYTHING, host_machine())])
    for changed in (
        {"slots": (0,)},
        {"imports": (("libc.abs", image.size),)},
        {"imports": (("libc.abs", image.data_offset + 4),)},
        {"symbols": (("f", image.size),)},
        {"data_offset": image.data_offset + 8},
        {"size": image.data_offset},
    ):
        with pytest.raises(ValueError):
            replace(image, **changed)


def test_code_for_another_machine_is_refused() -> None:
    other = X86_64_V3 if link([compiled(EVERYTHING, host_machine())]).machine == "aarch64" else AARCH64
    with pytest.raises(TesseraError, match=r"E0911.*compiled for"):
        load_image(link([compiled(EVERYTHING, other)]), resolve_libc)


def without_memory_files(patch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, flags: int) -> int:
        raise PermissionError("not here")

    patch.setattr("os.memfd_create", refuse)


@pytest.mark.parametrize("memory_files", [True, False])
def test_no_page_is_writable_and_executable(memory_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not memory_files:
        without_memory_files(monkeypatch)
    image = loaded(EVERYTHING)
    assert function(image, "count", ctypes.c_int64)() == 8
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[:2] for line in maps]
    found: dict[int, str] = {}
    for span, permissions in ranges:
        low, high = (int(x, 16) for x in span.split("-"))
        for address in (image.base, image.base + image.image.data_offset):
            if low <= address < high:
                found[address] = permissions
    assert found == {image.base: "r-xp", image.base + image.image.data_offset: "rw-p"}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.triple.split("-")[0])
def test_a_whole_function_links_for_every_machine(machine: Machine) -> None:
    artifact = add_artifact(machine)
    assert isinstance(artifact.code, Image) and artifact.code.machine == artifact.pool.machine
    assert {"tessera.entry", "tessera.method"} <= {name for name, _ in artifact.code.symbols}
    spaces = {name.partition(".")[0] for name, _ in artifact.code.imports}
    assert spaces == {"call", "dtype", "numpy", "pool", "python"}


def test_libc_is_found() -> None:
    assert resolve_libc("libc.memset") == ctypes.cast(LIBC.memset, ctypes.c_void_p).value
