"""Which forms make up one launch, and what is computed again instead of stored."""
