"""A node's side of a Kubernetes cluster: the API server's client, watches, and the documents that the node writes."""
