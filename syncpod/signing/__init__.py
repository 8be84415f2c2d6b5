"""The keys that command a node, and the programs that sign with them for clients that are not ours."""
