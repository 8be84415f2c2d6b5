"""The common parts of pull_image and the starts: image names, credentials, progress, and the node's images."""
