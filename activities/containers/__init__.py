"""Parts of several steps that concern containers: ending and removing them, and gathering the inputs of a start."""
