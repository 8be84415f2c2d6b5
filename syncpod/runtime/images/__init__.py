"""Images that were loaded from files: read, unpacked, listed, removed."""
