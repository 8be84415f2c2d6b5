"""Kubernetes' own tests of a node, run against a kubelet and against a node of ours in the same cluster."""
