"""What is known about sizes, and what follows from it."""
