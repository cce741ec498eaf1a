"""Lays relocatable objects out as one position-independent image.

Enters: ELF objects of one machine (`reloc='pic'`). Leaves: a `tessera.image.Image` in which every reference between
its parts is resolved; see there for the three tables that remain for the loader.

    text span:  code | jumps to C functions that LLVM calls by itself | constants
    data span:  slots of those jumps | address table | variables | zeros

Generated code reaches the outside through variables named `import.NAME`; each becomes an import slot, and objects that
reach the same have each a slot of their own. An undefined symbol is an error, except the few memory functions into
which LLVM turns its own intrinsics.
See Note [Memory functions].
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from tessera.image import SEGMENT_ALIGNMENT, Image
from tesserac.base.dataclass import dataclass
from tesserac.target.elf import LinkError, ObjectFile, Relocation, Section, Symbol, read_object
from tesserac.target.relocate import STUB_SIZE, Needs, jump_through, kind_of

__all__ = ["IMPORT_PREFIX", "LinkError", "link"]

IMPORT_PREFIX = "import."
_MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset"})

NO_TABLES: Mapping[str, tuple[bytes, int]] = MappingProxyType({})

SectionKey = tuple[int, int]
"""(object, section)"""


def link(objects: Sequence[bytes], tables: Mapping[str, tuple[bytes, int]] = NO_TABLES) -> Image:
    """One image of all objects; a global name means the same in each of them. Tables are constants, with their
    alignment, which objects only declare."""
    files = [read_object(data) for data in objects]
    machines = sorted({file.machine for file in files})
    if len(machines) != 1:
        raise LinkError(f"objects for {machines} in one image")
    return _Linker(machines[0], [*files, _tables_object(machines[0], tables)]).run()


def _tables_object(machine: str, tables: Mapping[str, tuple[bytes, int]]) -> ObjectFile:
    sections = {
        number: Section(name, data, len(data), alignment, writable=False, executable=False)
        for number, (name, (data, alignment)) in enumerate(tables.items())
    }
    symbols = tuple(Symbol(name, number, 0, local=False) for number, name in enumerate(tables))
    return ObjectFile(machine, sections, symbols, ())


@dataclass
class _Span:
    """Memory that is being filled; `start` is its offset in the image."""

    start: int = 0
    content: bytearray = field(default_factory=bytearray)

    def place(self, data: bytes, alignment: int) -> int:
        """Appends and returns the offset in the image."""
        self.content += bytes(-len(self.content) % alignment)
        self.content += data
        return self.start + len(self.content) - len(data)

    def write(self, offset: int, data: bytes) -> None:
        at = offset - self.start
        self.content[at : at + len(data)] = data


class _Linker:
    def __init__(self, machine: str, files: Sequence[ObjectFile]) -> None:
        self.machine = machine
        self.files = files
        self.symbols = _global_symbols(files)
        self.text, self.data = _Span(), _Span()
        self.section_offset: dict[SectionKey, int] = {}
        self.jump_offset: dict[str, int] = {}
        self.table_offset: dict[int, int] = {}
        """Slot of the address table, by the offset of what it points to."""
        self.imports: list[tuple[str, int]] = []
        self.slots: list[int] = []

    def run(self) -> Image:
        undefined = self._memory_functions()
        self._place(self.text, (k for k, s in self._sections() if s.executable))
        for name in undefined:
            self.jump_offset[name] = self.text.place(bytes(STUB_SIZE), STUB_SIZE)
        self._place(self.text, (k for k, s in self._sections() if not s.executable and not s.writable))
        self.data.start = -(-len(self.text.content) // SEGMENT_ALIGNMENT) * SEGMENT_ALIGNMENT
        for name in undefined:
            self._write_jump(name)
        self._place(self.data, (k for k, s in self._sections() if s.writable and s.data is not None))
        table = self.data.place(bytes(8 * self._table_size()), 8)
        filled = len(self.data.content)
        self._place(self.data, (k for k, s in self._sections() if s.writable and s.data is None))
        self._relocate(table)
        return self._image(filled)

    def _sections(self) -> Iterator[tuple[SectionKey, Section]]:
        for i, file in enumerate(self.files):
            for j, section in file.sections.items():
                yield (i, j), section

    def _relocations(self) -> Iterator[tuple[int, Relocation, Symbol]]:
        for i, file in enumerate(self.files):
            for relocation in file.relocations:
                yield i, relocation, file.symbols[relocation.symbol]

    def _memory_functions(self) -> list[str]:
        undefined = {s.name for _, _, s in self._relocations() if s.section is None} - self.symbols.keys()
        if unknown := sorted(undefined - _MEMORY_FUNCTIONS):
            raise LinkError(f"nothing defines {', '.join(unknown)}")
        return sorted(undefined)

    def _table_size(self) -> int:
        """An upper bound: one slot per reference through the table; equal targets share one."""
        kinds = (kind_of(self.machine, r.kind) for _, r, _ in self._relocations())
        return sum(kind.needs is Needs.TABLE_SLOT for kind in kinds)

    def _place(self, span: _Span, keys: Iterable[SectionKey]) -> None:
        for i, j in keys:
            section = self.files[i].sections[j]
            content = bytes(section.size) if section.data is None else section.data
            self.section_offset[i, j] = span.place(content, section.alignment)

    def _write_jump(self, name: str) -> None:
        slot = self.data.place(bytes(8), 8)
        self.imports.append((f"libc.{name}", slot))
        at = self.jump_offset[name]
        self.text.write(at, jump_through(self.machine, at, slot))

    def _address(self, file: int, symbol: Symbol) -> int:
        """The offset of a symbol in the image."""
        if symbol.section is not None:
            return self.section_offset[file, symbol.section] + symbol.value
        if symbol.name in self.symbols:
            return self._address(*self.symbols[symbol.name])
        return self.jump_offset[symbol.name]

    def _relocate(self, table: int) -> None:
        for file, relocation, symbol in self._relocations():
            place = self.section_offset[file, relocation.section] + relocation.offset
            target = self._address(file, symbol)
            kind = kind_of(self.machine, relocation.kind)
            if kind.needs is Needs.ABSOLUTE:
                self._add_slot(place)
            elif kind.needs is Needs.TABLE_SLOT:
                target = self._table_slot(target, table)
            span = self.text if place < self.data.start else self.data
            kind.patch(span.content, place - span.start, place, target + relocation.addend)

    def _add_slot(self, place: int) -> None:
        if place < self.data.start:
            raise LinkError("a constant holds an absolute address; the object is not position-independent")
        self.slots.append(place)

    def _table_slot(self, target: int, table: int) -> int:
        if target not in self.table_offset:
            slot = table + 8 * len(self.table_offset)
            self.table_offset[target] = slot
            self.data.write(slot, struct.pack("<Q", target))
            self.slots.append(slot)
        return self.table_offset[target]

    def _image(self, filled: int) -> Image:
        symbols = sorted((name, self._address(*where)) for name, where in self.symbols.items())
        slots = [(i, s) for i, file in enumerate(self.files) for s in _defined(file) if _is_slot(s)]
        imports = sorted((s.name.removeprefix(IMPORT_PREFIX), self._address(i, s)) for i, s in slots)
        return Image(
            machine=self.machine,
            text=bytes(self.text.content),
            data=bytes(self.data.content[:filled]),
            data_offset=self.data.start,
            size=self.data.start + len(self.data.content),
            slots=tuple(sorted(self.slots)),
            imports=(*self.imports, *imports),
            symbols=tuple(symbols),
        )


def _global_symbols(files: Sequence[ObjectFile]) -> dict[str, tuple[int, Symbol]]:
    found: dict[str, tuple[int, Symbol]] = {}
    for i, file in enumerate(files):
        for symbol in _defined(file):
            if symbol.name in found:
                raise LinkError(f"`{symbol.name}` is defined twice")
            if not _is_slot(symbol):
                found[symbol.name] = (i, symbol)
    return found


def _defined(file: ObjectFile) -> Iterator[Symbol]:
    """What other objects may refer to."""
    return (symbol for symbol in file.symbols if not symbol.local and symbol.section in file.sections)


def _is_slot(symbol: Symbol) -> bool:
    return symbol.name.startswith(IMPORT_PREFIX)


# Note [Memory functions]
# LLVM replaces large constant copies and fills, and loops it recognises as such, by calls to memcpy, memmove and
# memset, whatever the IR said. The linker gives each an import slot (`libc.memcpy`) and a jump through it next to the
# code, so a call reaches the C library's tuned version, and no other undefined name can slip in unnoticed.
