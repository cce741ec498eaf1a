"""Code generation in a process of its own: what ends LLVM must not end the program that compiles.

    python -m tesserac.target.nvptx.worker     reads [text, architecture], writes [true, PTX] or [false, what was wrong]

Enters: LLVM text. Leaves: PTX, or a `CodegenError` that says how the process ended. Processes are started when they are
first needed, as many as there are requests at once, answer one after another, and end with the process that started
them.
"""

from __future__ import annotations

import atexit
import json
import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Any

from tesserac.target.compile import CodegenError

_LENGTH = struct.Struct("<Q")


def emit_ptx_apart(text: str, arch: str) -> str:
    """PTX from a worker; from this process where no other can be started."""
    from tesserac.target.nvptx.ptx import emit_ptx

    with _waiting:
        worker = _idle.pop() if _idle else _Worker()
        try:
            return worker.ask(text, arch)
        except OSError:
            return emit_ptx(text, arch)
        finally:
            _idle.append(worker)


def start_worker() -> None:
    """Has a process get ready for the first request, if there is none. Where none can be started, requests say so."""
    with _starting, suppress(OSError):
        if not _workers:
            worker = _Worker()
            worker.start()
            _idle.append(worker)


class _Worker:
    """The process, or none yet. One request at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        _workers.append(self)
        atexit.register(self.stop)

    def start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            command = [sys.executable, "-m", "tesserac.target.nvptx.worker"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        return self._process

    def ask(self, text: str, arch: str) -> str:
        process = self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            _write(process.stdin, (text, arch))
            good, answer = _read(process.stdout)
        except (EOFError, BrokenPipeError):
            raise CodegenError(f"LLVM ended while it made PTX for {arch}: {self._last_words(process)}") from None
        if not good:
            raise CodegenError(answer)
        return str(answer)

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        self._process = None
        _, said = process.communicate()
        lines = said.decode(errors="replace").splitlines()
        told = (line for line in lines if "LLVM ERROR" in line or "error:" in line)
        return next(told, f"status {process.returncode}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()  # closes all pipes: it ends when there are no more questions


MOST_WORKERS = max(1, min(8, os.cpu_count() or 1))
_workers: list[_Worker] = []
_idle: list[_Worker] = []
"""Those that have nothing to do."""
_starting = threading.Lock()
_waiting = threading.BoundedSemaphore(MOST_WORKERS)


def _write(stream: IO[bytes], value: object) -> None:
    data = json.dumps(value).encode()
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    data = stream.read(_LENGTH.unpack(head)[0])
    return json.loads(data)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answers until there are no more questions."""
    from tesserac.target.nvptx.ptx import emit_ptx, initialize
    from tesserac.tile.gpu.model.errors import NotSelectableError

    initialize()
    while True:
        try:
            text, arch = _read(questions)
        except EOFError:
            return
        try:
            answer = (True, emit_ptx(text, arch))
        except (CodegenError, NotSelectableError) as error:
            answer = (False, str(error))
        _write(answers, answer)


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
