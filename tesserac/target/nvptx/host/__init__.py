"""The host program of a GPU function, compiled for the processor that starts it."""
