"""Reads and checks what a user types: arguments, flags, selectors, manifests. Nothing here opens a connection."""
