"""What pull_image and the starts share: names, credentials, progress, and which images are there."""
