"""Limits and measurements of containers by cgroups of either version, and measurements by /proc without cgroups."""
