"""E07xx: differentiation and transforms."""

from tesserac.diag.diagnostic import Code

E0701 = Code("E0701", "{problem}")
E0702 = Code("E0702", "{what} has no derivative: {why}")
E0703 = Code("E0703", "`{name}` is no parameter of {function} that a derivative can be taken with respect to")
E0705 = Code("E0705", "{problem}")
E0704 = Code("E0704", "{function} prints, and what it prints has no derivative")
