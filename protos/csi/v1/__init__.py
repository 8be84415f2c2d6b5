"""CSI v1."""
