"""Linux features that Python lacks: system calls, mounts, cgroups, atomic file replacement."""
