"""A worker's tasks before it serves a node: take the lock, look for rivals, take over the previous worker's pods."""
