"""Launches that fold, scan or sort rows: long rows in parts, short rows in lanes, one pass over exponentials."""
