"""Expressions of the syntax tree, each to the rule that it has."""
