"""Statements of a body, and what control flow carries."""
