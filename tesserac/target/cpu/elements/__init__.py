"""Elements in loops: loads and stores, scalar bodies, folds, vectors."""
