"""Diagnostics: what the compiler has to say to a person, as data, and how it is shown."""
