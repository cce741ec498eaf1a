"""Which thread holds which element: variants of a kernel, layouts of its blocks, and conversions between them."""
