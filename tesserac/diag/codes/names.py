"""E02xx: names, calls, kinds of values, control flow."""

from tesserac.diag.diagnostic import Code

E0201 = Code("E0201", "nothing here is called `{name}`")
E0202 = Code("E0202", "`{name}` is defined twice")
E0203 = Code("E0203", "`{name}` may have no value here")
E0204 = Code("E0204", "{problem}")
E0205 = Code("E0205", "{problem}")
E0206 = Code("E0206", "`{name}` calls itself with nothing that a compile-time value could end")
E0207 = Code("E0207", "{what} cannot be called")
E0208 = Code("E0208", "{what} has no `{name}`")
E0209 = Code("E0209", "{problem}")
E0210 = Code("E0210", "expected {expected}, found {found}")
E0211 = Code("E0211", "{problem}")
E0212 = Code("E0212", "`{name}` would change from {before} to {after}")
E0213 = Code("E0213", "a tensor cannot be iterated")
E0214 = Code("E0214", "a condition needs one bool, found {found}")
E0215 = Code("E0215", "{what} must be known while compiling")
E0216 = Code("E0216", "this assertion is false for every input")
E0217 = Code("E0217", "`{name}` does not work with these arguments")
E0218 = Code("E0218", "`is` only asks for None")
E0219 = Code("E0219", "an f-string stands in `print` and `assert` only")
E0220 = Code("E0220", "this name has a type but no value")
E0299 = Code("E0299", "not supported yet: {feature}")

W0201 = Code("W0201", "the value of this expression is not used")
