"""A Kubernetes cluster as a node sees it: its API server's client, watches, and the documents that a node writes."""
