"""The host program as machine code: launches in order, and how their programs reach threads."""
