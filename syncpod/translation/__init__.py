"""From a Pod to what a runtime is asked for: values in, values out, given what is known of the node."""
