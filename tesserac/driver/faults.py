"""Faults of the compiler itself: said as such, with a file that holds what a report needs."""

from __future__ import annotations

import hashlib
import traceback

from tessera.cache import make_private
from tessera.files import PRIVATE_FILE, write_file
from tesserac.base.cache import user_cache_dir

INTERNAL_FAULT = "E0999"


def fault_report(error: Exception, program: str) -> tuple[str, tuple[str, ...]]:
    """Message and notes for a fault; the traceback and the program go into a file in the user's cache."""
    details = "".join(traceback.format_exception(error))
    report = f"{details}\n--- program\n{program}".encode("utf-8", "backslashreplace")
    path = user_cache_dir() / f"fault-{hashlib.sha256(report).hexdigest()[:12]}.txt"
    message = f"the compiler failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    try:
        make_private(str(path.parent))
        write_file(path, report, PRIVATE_FILE)
    except OSError:
        return message, ("this is a fault of Tessera, not of your program; please report it",)
    return message, (f"this is a fault of Tessera, not of your program; please report it with {path}",)
