"""What is known of the items of a file, on disk between runs.

Enters: an `Analyser` that has read a file. Leaves: its trees and findings, for another one that meets the same texts.
The trees hold whatever was checked; findings only as long as the interfaces of the imported files are the same.
"""

from __future__ import annotations

from tesserac.base.codec import Codec
from tesserac.base.dataclass import dataclass
from tesserac.base.records import Records
from tesserac.base.source import SourceFile
from tesserac.diag.check_record import Reads
from tesserac.diag.stored import NAMED
from tesserac.incremental.analyser import Analyser
from tesserac.incremental.findings import Finding, Key
from tesserac.incremental.outline import Named, OutlineItem
from tesserac.syntax.parse import ParsedItem, remember
from tesserac.syntax.stored import PARSED

MAX_CONTEXTS = 200_000
"""Items that all contexts may hold together: a chain of a thousand calls is not worth writing down."""


@dataclass(frozen=True)
class Ledger:
    """`items` are by their texts."""

    imports: Reads
    items: tuple[tuple[str, ParsedItem], ...]
    findings: dict[Key, Finding]


_CODEC = Codec((*PARSED, Ledger, Finding, Named, OutlineItem), named=NAMED)


def read_ledger(records: Records, path: str) -> Ledger | None:
    """What was written for the file; its trees are known to the parser from now on."""
    ledger = records.read("ledger", path, _CODEC)
    if not isinstance(ledger, Ledger):
        return None
    remember(path, ledger.items)
    return ledger


def write_ledger(records: Records, source: SourceFile, analyser: Analyser, imports: Reads) -> None:
    findings = analyser.known()
    if sum(len(context) for _, context in findings) > MAX_CONTEXTS:
        return
    items = tuple((source.slice(item.span), item.parsed) for item in analyser.items())
    records.write("ledger", source.path, Ledger(imports, items, findings), _CODEC)
