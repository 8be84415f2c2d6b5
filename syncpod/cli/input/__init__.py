"""What a person types: arguments, flags, selectors, manifests, and what may be completed."""
