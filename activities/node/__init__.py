"""What a node keeps between steps, and what every step is given of it."""
