"""Volumes as files: the content of each kind, and its writing, so that no reader sees it half-written."""
