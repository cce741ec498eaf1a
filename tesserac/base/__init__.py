"""The ground floor: source text, positions in it, and the data files that come with the package."""
