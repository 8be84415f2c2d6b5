"""Trials of a node in a real cluster: the API server fails, the worker is killed, the node's key is stolen.

Kubernetes has no tests of these. Each trial has a line in docs/cluster.md: whether it held, and its measurements.
"""
