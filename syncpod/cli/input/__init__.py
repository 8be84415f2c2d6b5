"""What a user types: arguments, flags, selectors, manifests. FetchedPod and checking it; nothing is connected to."""
