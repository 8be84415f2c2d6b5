"""What a worker does before it serves a node: takes the lock, looks for rivals, takes over from the last worker."""
