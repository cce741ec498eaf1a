"""E0901-E0909, E0952: a source file that cannot be read as text, or not made into code as it is."""

from tesserac.diag.diagnostic import Code

E0901 = Code("E0901", "cannot read `{path}`: {reason}")
E0902 = Code("E0902", "`{path}` is not UTF-8 text")
E0952 = Code("E0952", "the link `{path}` is not followed: {reason}")
E0903 = Code("E0903", "this file has {size} KB of source; the limit is {limit} KB")
E0904 = Code("E0904", "`{function}` needs {sizes} as a number before code is made")
E0905 = Code("E0905", '`{function}` is a program of {devices} devices along "{axis}", and here is one')
E0906 = Code("E0906", "`{request}` is for a {device}, and `{function}` is compiled for {arch}")
E0907 = Code("E0907", "`{request}` is checked, and no target honours it yet")
