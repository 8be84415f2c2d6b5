"""What a node keeps between steps, and passes to each of them."""
