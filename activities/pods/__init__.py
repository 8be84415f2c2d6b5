"""What steps do to a pod as a whole: letting it in, its cgroup, its end, and the end of earlier pods of its name."""
