"""Functions of functions: derivatives, mapped functions, folds."""
