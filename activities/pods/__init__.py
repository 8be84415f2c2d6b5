"""What steps do to a pod as a whole: admit it, limit it, stop and remove it, and end earlier pods of its name."""
