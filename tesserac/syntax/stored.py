"""What parsed items are made of on disk, and on their way from another process."""

from __future__ import annotations

from tesserac.base.codec import classes_in
from tesserac.diag.stored import DIAGNOSTICS
from tesserac.syntax import ast, ast_expressions, parse

PARSED = (*DIAGNOSTICS, *classes_in(ast, ast_expressions, parse))
