"""Signatures bound to types, and bodies checked with them."""
