"""Volumes as files: what each kind shows, and how it comes onto the disk so that nobody sees it half-done."""
