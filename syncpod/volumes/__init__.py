"""The files of volumes: the content of each kind, and its writing, during which no reader sees a part of it."""
