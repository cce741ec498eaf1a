"""The thread pool, and the memory that all functions of a process share: one image."""
