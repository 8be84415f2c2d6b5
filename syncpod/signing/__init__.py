"""The keys that command a node, and what signs with them for clients that are not ours."""
