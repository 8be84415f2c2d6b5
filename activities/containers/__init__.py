"""What several steps do to containers: end them, remove them, and gather what a start needs."""
