"""Images that are loaded from files: reading, unpacking, listing and removing them."""
