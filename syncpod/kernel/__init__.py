"""What the Linux kernel offers and Python does not: system calls, mounts, cgroup hierarchies, files replaced whole."""
