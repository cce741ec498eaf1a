"""How a relocation changes the bytes it stands on, per machine.

Enters: the place and the target of a reference, both as offsets from the image's base (which is a multiple of the
page size, so page arithmetic done here holds wherever the image is mapped). Leaves: patched bytes.

A relocation needs one of three things: the target itself, a slot of the global offset table that holds its address,
or an absolute address, which only the loader knows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum

from tesserac.base.dataclass import dataclass
from tesserac.target.elf import LinkError


class Needs(Enum):
    TARGET = "the target"
    TABLE_SLOT = "a slot of the offset table"
    ABSOLUTE = "an absolute address"


Patch = Callable[[bytearray, int, int, int], None]
"""(bytes of the span, where in them, offset of the place in the image, offset of the target in the image)"""


@dataclass(frozen=True)
class Kind:
    name: str
    needs: Needs
    patch: Patch


def _signed(value: int, bits: int, what: str) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise LinkError(f"{what} does not reach {value} bytes")
    return value


def _absolute(data: bytearray, at: int, place: int, target: int) -> None:
    struct.pack_into("<Q", data, at, target)


def _relative_32(data: bytearray, at: int, place: int, target: int) -> None:
    struct.pack_into("<i", data, at, _signed(target - place, 32, "a 32-bit reference"))


def _relative_64(data: bytearray, at: int, place: int, target: int) -> None:
    struct.pack_into("<q", data, at, target - place)


def _set_bits(data: bytearray, at: int, value: int, low: int, count: int) -> None:
    """Puts `value` into bits `low` .. `low + count` of the instruction at `at`."""
    mask = (1 << count) - 1
    (word,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, word & ~(mask << low) | (value & mask) << low)


def _branch(low: int, count: int) -> Patch:
    """A distance counted in instructions."""

    def patch(data: bytearray, at: int, place: int, target: int) -> None:
        _set_bits(data, at, _signed(target - place, count + 2, "a branch") >> 2, low, count)

    return patch


def _split_immediate(data: bytearray, at: int, value: int) -> None:
    """The 21-bit immediate of ADR and ADRP: its two low bits stand apart."""
    _set_bits(data, at, value, 29, 2)
    _set_bits(data, at, value >> 2, 5, 19)


def _page(data: bytearray, at: int, place: int, target: int) -> None:
    _split_immediate(data, at, _signed((target >> 12) - (place >> 12), 21, "ADRP"))


def _near(data: bytearray, at: int, place: int, target: int) -> None:
    _split_immediate(data, at, _signed(target - place, 21, "ADR"))


def _page_offset(shift: int) -> Patch:
    """The low 12 bits of the target, in units of the access size."""

    def patch(data: bytearray, at: int, place: int, target: int) -> None:
        if target & ((1 << shift) - 1):
            raise LinkError(f"an access of {1 << shift} bytes to an address that is not aligned to it")
        _set_bits(data, at, (target & 0xFFF) >> shift, 10, 12)

    return patch


_X86_64 = {
    1: Kind("R_X86_64_64", Needs.ABSOLUTE, _absolute),
    2: Kind("R_X86_64_PC32", Needs.TARGET, _relative_32),
    4: Kind("R_X86_64_PLT32", Needs.TARGET, _relative_32),
    9: Kind("R_X86_64_GOTPCREL", Needs.TABLE_SLOT, _relative_32),
    24: Kind("R_X86_64_PC64", Needs.TARGET, _relative_64),
    41: Kind("R_X86_64_GOTPCRELX", Needs.TABLE_SLOT, _relative_32),
    42: Kind("R_X86_64_REX_GOTPCRELX", Needs.TABLE_SLOT, _relative_32),
}

_AARCH64 = {
    257: Kind("R_AARCH64_ABS64", Needs.ABSOLUTE, _absolute),
    260: Kind("R_AARCH64_PREL64", Needs.TARGET, _relative_64),
    261: Kind("R_AARCH64_PREL32", Needs.TARGET, _relative_32),
    273: Kind("R_AARCH64_LD_PREL_LO19", Needs.TARGET, _branch(5, 19)),
    274: Kind("R_AARCH64_ADR_PREL_LO21", Needs.TARGET, _near),
    275: Kind("R_AARCH64_ADR_PREL_PG_HI21", Needs.TARGET, _page),
    277: Kind("R_AARCH64_ADD_ABS_LO12_NC", Needs.TARGET, _page_offset(0)),
    278: Kind("R_AARCH64_LDST8_ABS_LO12_NC", Needs.TARGET, _page_offset(0)),
    279: Kind("R_AARCH64_TSTBR14", Needs.TARGET, _branch(5, 14)),
    280: Kind("R_AARCH64_CONDBR19", Needs.TARGET, _branch(5, 19)),
    282: Kind("R_AARCH64_JUMP26", Needs.TARGET, _branch(0, 26)),
    283: Kind("R_AARCH64_CALL26", Needs.TARGET, _branch(0, 26)),
    284: Kind("R_AARCH64_LDST16_ABS_LO12_NC", Needs.TARGET, _page_offset(1)),
    285: Kind("R_AARCH64_LDST32_ABS_LO12_NC", Needs.TARGET, _page_offset(2)),
    286: Kind("R_AARCH64_LDST64_ABS_LO12_NC", Needs.TARGET, _page_offset(3)),
    299: Kind("R_AARCH64_LDST128_ABS_LO12_NC", Needs.TARGET, _page_offset(4)),
    311: Kind("R_AARCH64_ADR_GOT_PAGE", Needs.TABLE_SLOT, _page),
    312: Kind("R_AARCH64_LD64_GOT_LO12_NC", Needs.TABLE_SLOT, _page_offset(3)),
}

_KINDS = {"x86_64": _X86_64, "aarch64": _AARCH64}

STUB_SIZE = 16


def kind_of(machine: str, number: int) -> Kind:
    kind = _KINDS[machine].get(number)
    if kind is None:
        raise LinkError(f"relocation {number} of {machine} has no rule")
    return kind


def jump_through(machine: str, place: int, slot: int) -> bytes:
    """`STUB_SIZE` bytes of code at `place` that continue at the address held in `slot`."""
    if machine == "x86_64":
        code = bytearray(b"\xff\x25\0\0\0\0".ljust(STUB_SIZE, b"\xcc"))  # jmp [rip + distance]
        _relative_32(code, 2, place + 6, slot)
        return bytes(code)
    adrp_x16, ldr_x17_from_x16, br_x17, brk = 0x90000010, 0xF9400211, 0xD61F0220, 0xD4200000
    code = bytearray(struct.pack("<4I", adrp_x16, ldr_x17_from_x16, br_x17, brk))
    _page(code, 0, place, slot)
    _page_offset(3)(code, 4, place, slot)
    return bytes(code)
