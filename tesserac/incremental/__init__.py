"""Checking a file again after an edit: item by item, at the cost of what the edit can have changed."""
