"""Launches of the schedule as neutral tiles: one file for each kind of kernel."""
