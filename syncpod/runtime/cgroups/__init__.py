"""Limits and measurements of containers, by the kernel's cgroups of either version, else by /proc."""
