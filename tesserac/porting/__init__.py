"""From a file of PyTorch to the text that says the same here: classes, their layers, settings and training steps."""
