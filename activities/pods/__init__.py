"""Parts of steps that concern a whole pod: admit it, limit it, stop and remove it, and end earlier pods of its name."""
