"""Linux features that Python lacks: system calls, mounts, cgroups, /proc, atomic file replacement."""
