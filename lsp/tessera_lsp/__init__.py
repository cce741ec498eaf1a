"""The editor's server: the session of the compiler behind the language server protocol."""
