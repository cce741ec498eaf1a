"""Matrix products on a CPU: packing into panels, register blocks, and the shapes for which neither is worth it."""
