"""A node's journal: the records that explain what happened to its pods, including pods that are gone.

Start with `records.py`, which defines the records. Then read `file.py`, which writes them, and `reading.py`, which
reads them.
"""
