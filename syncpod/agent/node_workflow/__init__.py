"""What of the agent speaks to the node's own workflow: the node's status, and the pods of its manifests."""
