"""The agent's part in a fleet: the link to the fleet's server, and the node's answers to the fleet."""
