"""Types: dtypes, precision policies, symbolic sizes, and the types made of them."""
