"""The common parts of pull_image and the starts: names, credentials, progress, and the images that are there."""
