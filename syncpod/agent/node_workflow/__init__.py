"""The part of the agent that talks to the node's own workflow: the node's status, and the pods of its manifests."""
