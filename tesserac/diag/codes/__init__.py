"""Every diagnostic code, by family.

To add one: a constant in its family's module, and a page `E0302.md` beside it (see `tesserac/diag/pages.py` for
its form). A test holds the two together and compiles the page's programs. A new family also joins `FAMILIES`.
"""

from __future__ import annotations

from tesserac.diag.codes import (
    differentiation,
    effects,
    files,
    kernels,
    names,
    operators,
    precision,
    projects,
    runtime,
    shapes,
    syntax,
)
from tesserac.diag.diagnostic import Code

FAMILIES = (syntax, names, shapes, precision, kernels, effects, differentiation, operators, files, projects, runtime)

ALL: dict[str, Code] = {
    code.id: code for family in FAMILIES for code in vars(family).values() if isinstance(code, Code)
}
