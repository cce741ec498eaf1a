"""Programs of several files: the project file, and where a module of a given name lies."""
