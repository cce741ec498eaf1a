"""What is read and rebound by index or field: `x[i]`, `x[i] = v`, `m.w = v`."""
