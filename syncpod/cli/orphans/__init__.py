"""Orphans: pods and other things in this machine's runtime that no workflow wants. Finds, adopts and removes them."""
