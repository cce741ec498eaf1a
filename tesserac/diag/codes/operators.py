"""E08xx: operators as values."""

from tesserac.diag.diagnostic import Code

E0801 = Code("E0801", "operator `{name}`: {sizes}")
E0802 = Code("E0802", "invalid operand: {problem}")
E0803 = Code("E0803", "`{name}` needs the size of this operator")
E0804 = Code("E0804", "a property is missing: {problem}")
E0805 = Code("E0805", "the matrix is too large: {problem}")
E0806 = Code("E0806", "the axis is not clear: {problem}")
E0807 = Code("E0807", "`@sizes`: {problem}")
