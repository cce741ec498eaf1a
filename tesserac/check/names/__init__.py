"""What names mean, found in the syntax tree alone."""
