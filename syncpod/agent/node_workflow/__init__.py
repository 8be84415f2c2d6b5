"""Connects the agent with the node's own workflow: reports the status of the node and the pods that were recalled."""
