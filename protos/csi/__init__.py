"""The Container Storage Interface, as far as a node calls it."""
