"""The host program: buffers and their liveness, what loops carry, donation, branches and frozen operands."""
