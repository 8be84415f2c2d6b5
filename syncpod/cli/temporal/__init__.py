"""Pods and nodes through Temporal: listing, reading, signalling, updating, waiting."""
