"""Container Runtime Interface, by version, and what one runtime serves beside it."""
