"""The node's part in a Kubernetes cluster: its pods from the API server, their statuses and the Node to it."""
