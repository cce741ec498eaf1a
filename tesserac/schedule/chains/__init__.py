"""Chains of launches through which one part of the data goes while it is in the caches."""
