"""Launches of maps: blocks of elements, flat and horizontally fused launches, pairs of complex parts."""
