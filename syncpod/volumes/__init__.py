"""Volumes as files: what each kind contains, and how it is written so that nobody sees a part of it."""
