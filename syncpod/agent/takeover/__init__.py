"""A worker's work before it serves a node: it takes the lock, looks for rivals, and takes over from the last worker."""
