"""A node's own state: facts of its machine, and its pods' directories, volumes, cgroups, records and listings."""
