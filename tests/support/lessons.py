"""Runs the blocks of a page from top to bottom, in one folder, as a reader would.

```tess title="x.tess"     a file, which later blocks use; one without a title is checked, and its tests run
```python                  runs, with the names of the blocks before it
```console                 `$ command` lines, each followed by all it prints; a line `...` stands for any lines

Leaves: the page with the output of today, so that a test compares and `--update` rewrites.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import tessera
from tesserac import cli
from tesserac.base.source import SourceFile
from tesserac.diag.formats import render_short
from tesserac.driver.session import Session

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"\n]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_MEASURED = re.compile(r"\d+(\.\d+)? (m?s|KB)\b")
_PROGRAMS = {"tesserac": cli.compiler, "tessera": cli.runner}


class Lesson:
    """One page being run in the current folder."""

    def __init__(self, name: str, given: Mapping[str, object] | None = None) -> None:
        self._name = name
        self._names: dict[str, object] = {"__name__": name, **(given or {})}
        self._files: dict[str, bool] = {}

    def run(self, text: str) -> str:
        """The page as it would be written today."""
        threads = tessera.get_num_threads()
        try:
            found = _BLOCK.sub(self._block, text)
        finally:
            tessera.set_num_threads(threads)
        assert all(self._files.values()), f"{self._name}: nothing uses {self._files}"
        return found

    def run_python(self, text: str) -> None:
        """The Python of a page alone."""
        for kind, _, code in _BLOCK.findall(text):
            if kind == "python":
                exec(compile(code, self._name, "exec"), self._names)

    def _block(self, match: re.Match[str]) -> str:
        kind, title, text = match.groups()
        if kind == "tess" and title:
            Path(title).write_text(text, encoding="utf-8")
            self._files[title] = False
        elif kind == "tess":
            self._check(text)
        elif kind == "python":
            self._use(text)
            exec(compile(text, self._name, "exec"), self._names)
        elif kind == "console":
            return f"```console\n{''.join(self._commands(text))}```"
        return match[0]

    def _use(self, text: str) -> None:
        for name in self._files:
            self._files[name] |= name in text or f"{Path(name).stem}.tessb" in text

    def _check(self, text: str) -> None:
        source = SourceFile(f"{self._name}.tess", text)
        said = [render_short(d, {source.path: source}) for d in _session().check(source).diagnostics]
        assert said == [], "\n".join(said)
        if re.search(r'^test "', text, re.MULTILINE):
            Path("block.tess").write_text(text, encoding="utf-8")
            assert "passed" in shown("tesserac test block.tess")

    def _commands(self, text: str) -> Iterator[str]:
        for command, kept in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            self._use(command)
            now = shown(command)
            yield f"$ {command}\n{kept if _agree(kept, now) else now}"


@cache
def _session() -> Session:
    return Session()


def shown(command: str) -> str:
    """What a command prints: its results, then what it says about them."""
    program, *arguments = shlex.split(command)
    if program == "ls":
        return "".join(f"{name}\n" for name in sorted(arguments) if os.path.exists(name))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        cli.main(_PROGRAMS[program], program, arguments)
    return out.getvalue() + err.getvalue()


def _agree(kept: str, now: str) -> bool:
    """Times and sizes of code differ, and so does the line of `=` that they stand in."""

    def steady(text: str) -> str:
        return re.sub(r"=+", "=", _MEASURED.sub("SO MUCH", text))

    pattern = "".join(r"(?:.*\n)*?" if line == "...\n" else re.escape(line) for line in steady(kept).splitlines(True))
    return bool(kept) and re.fullmatch(pattern, steady(now)) is not None


if __name__ == "__main__":
    import sys
    import tempfile

    for path in map(Path.resolve, map(Path, sys.argv[1:])):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(Lesson(path.stem).run(path.read_text(encoding="utf-8")), encoding="utf-8")
