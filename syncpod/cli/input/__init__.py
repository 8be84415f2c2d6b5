"""What a user types: arguments, flags, selectors, manifests. Reading and checking it; nothing is connected to."""
