"""Questions about a whole checked function: ranges, derivatives, uniformity."""
