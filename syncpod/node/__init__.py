"""The things of a node: its machine's facts, and its pods' directories, volumes, cgroups, records and listings."""
