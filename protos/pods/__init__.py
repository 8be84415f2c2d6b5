"""Whole Pods, for programs of the node."""
