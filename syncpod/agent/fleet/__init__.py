"""The part of the agent that belongs to a fleet: the link to its server, and what the node answers there."""
