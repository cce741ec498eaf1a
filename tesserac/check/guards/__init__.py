"""Questions about sizes that compiling leaves to the run."""
