"""E06xx: effects, placement, and where what has effects may stand."""

from tesserac.diag.diagnostic import Code

E0601 = Code("E0601", "`{function}` says `uses {declared}` but has effect `{effect}`")
E0602 = Code("E0602", "`{name}` is not an effect")
E0603 = Code("E0603", "invalid placement or mode: {problem}")
E0604 = Code("E0604", "invalid distribution: {problem}")
E0605 = Code("E0605", 'devices along "{axis}" may disagree on whether they come to `{name}`')
E0606 = Code("E0606", "this loop never ends")
E0607 = Code("E0607", "`{name}` can only be used in {place}")
E0608 = Code("E0608", "`{function}` binds its first argument again, which must be a name")
E0609 = Code("E0609", "`where {fact}` never holds")

W0601 = Code("W0601", "`{function}` says `uses {effect}` but does not have it")
W0602 = Code("W0602", "no result of `{function}` can take the memory of `{name}`")
