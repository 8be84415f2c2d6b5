"""Containers as real processes: the server's side, the supervisor's side, and their protocol."""
