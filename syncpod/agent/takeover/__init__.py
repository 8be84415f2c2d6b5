"""What a worker does before it serves a node: its lock, its rivals, and what the last worker left undone."""
