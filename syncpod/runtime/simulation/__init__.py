"""Containers that are timers: what their pods' scripts say, and the moments that follow from it."""
