"""Volumes as files: what each kind contains, and how it is written so that no reader sees it half-written."""
