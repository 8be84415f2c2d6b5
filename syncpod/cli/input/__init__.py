"""What a user types: arguments, flags, selectors, manifests. Reads and checks it; nothing here opens a connection."""
