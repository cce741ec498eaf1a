"""Meshes, mapped axes and collectives."""
