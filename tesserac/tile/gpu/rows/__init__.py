"""Rows of a GPU: teams of threads that fold one, rows in registers, loads by words, prefetches."""
