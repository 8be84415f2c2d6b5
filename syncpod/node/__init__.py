"""What a node has and keeps: its machine's facts, and its pods' directories, volumes, cgroups, records and listings."""
