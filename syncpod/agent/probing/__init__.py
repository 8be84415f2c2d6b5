"""Probes: runs containers' probes periodically, and signals the pod's workflow when a result changes."""
