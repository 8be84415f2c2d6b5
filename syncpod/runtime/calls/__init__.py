"""CRI's calls as the server takes them: checked, looked up, answered, refused, and made to fail on demand."""
