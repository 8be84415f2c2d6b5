"""The gate of a fleet: what a node may ask of the fleet's Temporal server, by a certificate that names the node."""
