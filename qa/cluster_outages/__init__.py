"""A node of a real cluster whose API server goes, whose agent is killed, and whose key is stolen: docs/cluster.md.

Kubernetes has no tests of these. Each trial has one line of the page: whether it held, and with which numbers.
"""
