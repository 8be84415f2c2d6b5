"""The files of volumes: computes the content of each kind, and writes it so that no reader sees a part of it."""
