"""Tells programs on this machine what the pods of its node have been given of it (podresources v1)."""
