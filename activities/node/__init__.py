"""The state of a node between steps, which is passed to each step."""
