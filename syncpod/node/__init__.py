"""A node's own state: its machine's facts, and its pods' directories, volumes, cgroups, records and listings."""
