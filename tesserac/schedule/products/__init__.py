"""Launches of matrix products: how operands are laid out, windows of images, variants for sizes of a run."""
