"""The agent's part in a fleet: it connects to the fleet's server, runs the fleet's pods, and reports their states."""
