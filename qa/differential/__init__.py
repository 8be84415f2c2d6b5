"""One manifest, a live kubelet and a node of ours: what differs.

`python -m qa.differential` drops each manifest of `families` into the directory of static pods of a kubelet and into
the manifest directory of one of our nodes, each with a containerd of its own, waits for the same moment on both, and
compares the pod's status, its events, what its containers say of their inside, and what the runtime was asked.
"""
