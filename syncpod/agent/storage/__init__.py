"""Collects unused images, rotates logs, and refreshes volumes when their objects change."""
