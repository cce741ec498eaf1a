"""The way from a Python call into an entry."""
