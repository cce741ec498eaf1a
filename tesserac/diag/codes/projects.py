"""E0940-E0949: project files, and programs of several files."""

from tesserac.diag.diagnostic import Code

E0940 = Code("E0940", "this project file is not TOML: {reason}")
E0941 = Code("E0941", "`{key}` is not a key of {table}")
E0942 = Code("E0942", "{what} must be {wanted}")
E0943 = Code("E0943", "`{path}` is not there: {wanted}")
E0944 = Code("E0944", "these projects depend on each other: {cycle}")
E0945 = Code("E0945", "`{name}` would mean two things: {first} and {second}")
E0946 = Code("E0946", "`{name}` is private to `{module}`")
E0947 = Code("E0947", "these files import each other: {problem}")
E0948 = Code("E0948", "`{name}` is asked for in version {asked}, and its project file says {found}")
