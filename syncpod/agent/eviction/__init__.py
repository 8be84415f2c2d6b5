"""Evicts pods when the node runs short of resources, and when a pod exceeds its storage limits."""
