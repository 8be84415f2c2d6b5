"""The bugs, by room."""
