"""Streams between the user and a container: terminals, ports, tar archives, logs."""
