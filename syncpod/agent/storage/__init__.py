"""Image garbage collection, log rotation, and the refresh of volumes."""
