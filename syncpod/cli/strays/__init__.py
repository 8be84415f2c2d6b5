"""Strays: what this machine's runtime has and no workflow asks for. Finding, adopting and removing it."""
