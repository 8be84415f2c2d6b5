"""Containers as real processes: the server's side, the supervisor's side, and what they say to one another."""
