"""What packaging puts into the wheel so that no start has to make it: the parser's tables, the library checked.

Enters: the checkout. Leaves: files by their path under `tesserac/_data`. A grammar with a conflict or a library with
a mistake is an exception: there is no wheel then.
"""

from __future__ import annotations

from tesserac.base.resources import CHECKED_LIBRARY, TABLES, grammar_text, stdlib_files
from tesserac.modules.library import check_library, encode_library
from tesserac.syntax.tables import build, encode


def prepared_files() -> dict[str, bytes]:
    files = stdlib_files()
    return {
        TABLES: encode(build(grammar_text())).encode(),
        CHECKED_LIBRARY: encode_library(check_library(files), files),
    }
