"""The state of checking one body, which every rule has at hand."""
