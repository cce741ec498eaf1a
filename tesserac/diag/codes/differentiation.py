"""E07xx: differentiation and transforms."""

from tesserac.diag.diagnostic import Code

E0701 = Code("E0701", "`{transform}` needs a function that gives one float; this one gives {found}")
E0702 = Code("E0702", "{what} has no derivative: {why}")
E0703 = Code("E0703", "invalid wrt: {problem}")
E0705 = Code("E0705", "invalid derivative rule: {problem}")
E0704 = Code("E0704", "{function} prints, and what it prints has no derivative")
E0710 = Code("E0710", "invalid checkpoint: {problem}")
E0720 = Code("E0720", "the mapped axes do not fit: {problem}")
E0721 = Code("E0721", "mapped dims have different sizes: {left} and {right}")
E0722 = Code("E0722", "{function} prints, and what it prints has no order when it is mapped")
E0723 = Code("E0723", "no dim `{name}` to map among {dims}")
E0724 = Code("E0724", "what is carried changes its type: {before} becomes {after}")
E0725 = Code("E0725", "`{transform}` {wants}, not {found}")
E0726 = Code("E0726", "`{transform}` with `has_aux=True` needs a function that gives a pair")
