"""Reads an ELF64 relocatable object as LLVM writes it.

Enters: the bytes of a little-endian x86-64 or AArch64 object. Leaves: its allocated sections, symbols and relocations
as plain data. Sections that only debuggers and unwinders read are dropped here: nothing unwinds through an image.
"""

from __future__ import annotations

import struct

from tesserac.base.dataclass import dataclass

MACHINES = {62: "x86_64", 183: "aarch64"}

_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4
_SHN_UNDEF, _SHN_FIRST_SPECIAL = 0, 0xFF00
_STB_LOCAL, _STT_FILE = 0, 4
_UNWIND_TABLES = (".eh_frame", ".gcc_except_table", ".ARM.exidx")

_FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class LinkError(Exception):
    """An object that cannot become an image. Always a fault of the compiler, never of the user's program."""


@dataclass(frozen=True)
class Section:
    """A stretch of memory. `data` is None where it starts as zeros."""

    name: str
    data: bytes | None
    size: int
    alignment: int
    writable: bool
    executable: bool


@dataclass(frozen=True)
class Symbol:
    """A name for `value` bytes into a section; `section` is None where another object must define it."""

    name: str
    section: int | None
    value: int
    local: bool


@dataclass(frozen=True)
class Relocation:
    """Asks to write the address of `symbol + addend` into `section` at `offset`, in the way of `kind`."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class ObjectFile:
    machine: str
    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


@dataclass(frozen=True)
class _Header:
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


def read_object(data: bytes) -> ObjectFile:
    """The object's allocated content. Raises LinkError for anything LLVM does not write."""
    identity, _, machine, *_ = _FILE_HEADER.unpack_from(data)
    if identity[:6] != b"\x7fELF\x02\x01" or machine not in MACHINES:
        raise LinkError("not a 64-bit little-endian object for x86-64 or AArch64")
    headers = _read_headers(data)
    sections = {i: _section(data, h) for i, h in enumerate(headers) if _is_loaded(h)}
    symbols: tuple[Symbol, ...] = ()
    relocations: list[Relocation] = []
    for header in headers:
        if header.type == _SHT_SYMTAB:
            symbols = _read_symbols(data, header, headers[header.link])
        if header.type == _SHT_RELA and header.info in sections:
            relocations += _read_relocations(data, header)
    return ObjectFile(MACHINES[machine], sections, symbols, tuple(relocations))


def _read_headers(data: bytes) -> list[_Header]:
    fields = _FILE_HEADER.unpack_from(data)
    table, count, names_index = fields[6], fields[12], fields[13]
    raw = [_SECTION_HEADER.unpack_from(data, table + i * _SECTION_HEADER.size) for i in range(count)]
    names = raw[names_index][4]
    return [
        _Header(_text(data, names + name), kind, flags, offset, size, link, info, max(alignment, 1))
        for name, kind, flags, _, offset, size, link, info, alignment, _ in raw
    ]


def _is_loaded(header: _Header) -> bool:
    return bool(header.flags & _SHF_ALLOC) and not header.name.startswith((*_UNWIND_TABLES, ".note"))


def _section(data: bytes, header: _Header) -> Section:
    content = None if header.type == _SHT_NOBITS else data[header.offset : header.offset + header.size]
    return Section(
        header.name,
        content,
        header.size,
        header.alignment,
        bool(header.flags & _SHF_WRITE),
        bool(header.flags & _SHF_EXECINSTR),
    )


def _read_symbols(data: bytes, header: _Header, names: _Header) -> tuple[Symbol, ...]:
    symbols = []
    for at in range(header.offset, header.offset + header.size, _SYMBOL.size):
        name, info, _, section, value, _ = _SYMBOL.unpack_from(data, at)
        text = _text(data, names.offset + name)
        if section >= _SHN_FIRST_SPECIAL and info & 15 != _STT_FILE:
            raise LinkError(f"`{text}` is a common or absolute symbol")
        place = None if section == _SHN_UNDEF else section
        symbols.append(Symbol(text, place, value, info >> 4 == _STB_LOCAL))
    return tuple(symbols)


def _read_relocations(data: bytes, header: _Header) -> list[Relocation]:
    found = []
    for at in range(header.offset, header.offset + header.size, _RELOCATION.size):
        offset, info, addend = _RELOCATION.unpack_from(data, at)
        found.append(Relocation(header.info, offset, info & 0xFFFFFFFF, info >> 32, addend))
    return found


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
