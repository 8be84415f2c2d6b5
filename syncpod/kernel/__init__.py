"""What the Linux kernel offers and Python does not: system calls, mounts, cgroups, atomic file replacement."""
