"""The gate of a fleet: it lets nodes with a certificate make a few calls to the fleet's Temporal server."""
