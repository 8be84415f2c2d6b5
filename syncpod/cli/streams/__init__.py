"""Streams between a person and a container: terminals, ports, tar archives, logs."""
