"""Translates a Pod into the CRI configurations for a runtime: pure functions of the pod and of facts of the node."""
