"""Scans and sorts by all threads of a program, and what programs publish for each other."""
