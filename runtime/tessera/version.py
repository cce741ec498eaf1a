"""The version of the package: apart from `tessera`, so that the compiler can name it without importing that."""

__version__ = "0.2.0"
