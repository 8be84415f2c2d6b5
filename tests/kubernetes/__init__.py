"""A node in a Kubernetes cluster: its client, its pods, their statuses and its Node."""
