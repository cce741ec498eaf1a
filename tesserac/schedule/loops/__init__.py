"""Loops of the host program: rows or columns apart, steps in one launch, invariant packs, look-ahead."""
