"""Matrix products as code: packing, micro-kernels, tiles of a matrix unit, and products that read memory in place."""
