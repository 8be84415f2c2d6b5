"""The Container Runtime Interface, by version, and calls that only containerd has."""
