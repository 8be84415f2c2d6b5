"""From a Pod to what a runtime is asked for: pure functions of the pod and of what is known of the node."""
