"""Tests of a node in a Kubernetes cluster: its client, pods, statuses and Node."""
