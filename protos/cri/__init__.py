"""Container Runtime Interface, by version."""
