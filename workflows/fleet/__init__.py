"""The workflows of a fleet, which run on its own cluster: nodes, workloads, objects and remote commands."""
