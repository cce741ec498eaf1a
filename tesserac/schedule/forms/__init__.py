"""Forms as fusion wants them: few views, every view readable from memory, updates in place."""
