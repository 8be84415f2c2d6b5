"""A node's journal: what explains its pods, for as long as the node keeps it; also of pods that are gone.

Start with `records.py`, what is kept; then `file.py`, how it is written, and `reading.py`, how it is read.
"""
