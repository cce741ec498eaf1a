"""Machine code as plain data: what the linker leaves and the loader maps.

An image is two spans of memory at a fixed distance: code with constants (read, execute) from offset 0, and variables
(read, write) from `data_offset`. Everything inside refers to the rest by distance, so an image runs wherever it is
mapped. What depends on the place or on the process stands in 8-byte slots of the writable span:

    slots     offsets of words that hold an offset; the loader adds the base address
    imports   (name, offset) of words that receive the address of something outside: a C function, a Python object
    symbols   (name, offset) of what the outside may call or read
"""

from __future__ import annotations

from dataclasses import dataclass

SEGMENT_ALIGNMENT = 1 << 16
"""The largest page size of the supported systems: the writable span starts at a page of its own on each of them."""


@dataclass(frozen=True)
class Image:
    machine: str
    """`aarch64` or `x86_64`, as `platform.machine()` spells it."""
    text: bytes
    data: bytes
    data_offset: int
    size: int
    """Bytes from the base to the end of the writable span, with the part that starts as zeros."""
    slots: tuple[int, ...]
    imports: tuple[tuple[str, int], ...]
    symbols: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        """Keeps every table inside the writable span: a damaged image must not make the loader write elsewhere."""
        if not len(self.text) <= self.data_offset <= self.data_offset + len(self.data) <= self.size:
            raise ValueError("the spans of an image overlap")
        if self.data_offset % SEGMENT_ALIGNMENT:
            raise ValueError("the writable span of an image must start at a page")
        for offset in (*self.slots, *(offset for _, offset in self.imports)):
            if offset % 8 or not self.data_offset <= offset <= self.size - 8:
                raise ValueError(f"slot {offset} of an image lies outside its writable span")
        if any(not 0 <= offset < self.size for _, offset in self.symbols):
            raise ValueError("a symbol of an image lies outside it")

    def symbol(self, name: str) -> int:
        """The offset of a symbol that this image is known to have."""
        return dict(self.symbols)[name]
