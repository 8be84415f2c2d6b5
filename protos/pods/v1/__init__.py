"""Version 1 of what a Pod is."""
