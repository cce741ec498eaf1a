"""Where sizes and elements came from: the reasons below a message."""
