"""Schedules that were found by measuring."""
