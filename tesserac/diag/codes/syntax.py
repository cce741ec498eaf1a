"""E01xx: the text is not a Tessera program."""

from tesserac.diag.diagnostic import Code

E0101 = Code("E0101", "syntax error: {problem}")
E0102 = Code("E0102", "`{opener}` is never closed")
E0103 = Code("E0103", "brackets do not match: `{closer}` {problem}")
E0104 = Code("E0104", "this string is never closed")
E0105 = Code("E0105", "the indentation does not fit: {problem}")
E0106 = Code("E0106", "tabs and spaces are mixed in this indentation")
E0107 = Code("E0107", "{feature} is not part of Tessera")
E0108 = Code("E0108", "{character} cannot stand here")
E0109 = Code("E0109", "`{text}` is not a number")
E0110 = Code("E0110", "{what} is not allowed {where}")
E0111 = Code("E0111", "cannot assign to {what}")
E0112 = Code("E0112", "{what} cannot follow {other}")
E0113 = Code("E0113", "a decorator {rule}")
E0114 = Code("E0114", "this is nested more than {limit} levels deep")
E0115 = Code("E0115", "invalid f-string: {problem}")
E0116 = Code("E0116", "`{word}` is a keyword and cannot be a name")
E0117 = Code("E0117", "`->` needs `fn(...)` on its left")
E0118 = Code("E0118", "`{escape}` is not an escape sequence")
