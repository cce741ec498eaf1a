"""What threads compute in registers: fragments, scalar primitives, conversions, loops."""
