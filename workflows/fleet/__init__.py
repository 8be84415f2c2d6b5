"""The workflows of a fleet, which run on its own cluster: what each node shall run, and what it says of itself."""
