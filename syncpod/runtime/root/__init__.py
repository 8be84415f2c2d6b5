"""The root file system of a container: its layers and mounts, of the machine's files or of an image's."""
