"""What every decision about a launch speaks of: where elements lie, the space it walks, uses, variants, reasons."""
