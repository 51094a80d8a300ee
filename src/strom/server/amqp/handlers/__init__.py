"""One module per class of methods."""
