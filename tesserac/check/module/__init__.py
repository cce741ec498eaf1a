"""The checker of one module, which ties the rules together."""
