"""Loads and stores of fragments: by vectors, by words, at computed places."""
