"""Calls of functions and structs, and what is said where arguments do not fit."""
