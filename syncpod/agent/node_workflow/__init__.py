"""Connects the agent with the node's own workflow: reports the node's status, and runs the pods of its manifests."""
