"""Everything typed so far, as one source text.

Enters: inputs, one after the other. Leaves: a `SourceFile` that only ever grows, so that the spans of old definitions
stay right and a message can point at the line where something was defined.
"""

from __future__ import annotations

from tesserac.base.source import SourceFile, Span

PATH = "<repl>"


class Transcript:
    def __init__(self) -> None:
        self.source = SourceFile(PATH, "")

    def add(self, text: str) -> Span:
        """Appends one input; where it now stands."""
        start = len(self.source.text)
        self.source = SourceFile(PATH, f"{self.source.text}{text}\n")
        return self.source.span(start, start + len(text))

    def add_part(self, line: str, part: str) -> Span:
        """Appends the line of a command, of which only `part`, right after the command's name, is an input."""
        start = self.add(line).start + line.index(part, line.index(" "))
        return self.source.span(start, start + len(part))
