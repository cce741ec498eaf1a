"""Speed, measured side by side with the best peer. `python -m benchmarks` runs all and keeps the results."""
