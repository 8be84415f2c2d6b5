"""Probes: a container is asked how it is, over and over, and its pod hears of it when the answer changes."""
