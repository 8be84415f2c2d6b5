"""Compares a live kubelet with a node of ours, manifest by manifest.

`python -m qa.differential` puts each manifest of `families` into the static pod directory of a kubelet and into the
manifest directory of a node of ours, each with its own containerd. It waits for the same state on both, and compares
the pod's status, its events, the output of its containers, and the requests to the runtime.
"""
