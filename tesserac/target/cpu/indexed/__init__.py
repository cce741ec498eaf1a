"""Folds into places, and sorts, as code."""
