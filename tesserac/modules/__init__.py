"""What loads modules: the library, files that a program imports, interfaces kept on disk."""
