"""The root file system of a container: layers over the machine's or an image's files, and mounts."""
