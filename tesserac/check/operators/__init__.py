"""Uses of tier-1 operators, and what is said where operands do not fit."""
