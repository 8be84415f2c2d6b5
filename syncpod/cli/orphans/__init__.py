"""Finds, adopts and removes orphans: pods and other objects in this machine's runtime that have no workflow."""
