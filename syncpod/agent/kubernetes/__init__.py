"""The node's part in a Kubernetes cluster: it runs the API server's pods, and writes their statuses and its Node."""
