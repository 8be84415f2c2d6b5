"""A node's journal: the records that explain what happened to its pods, including pods that are gone.

Start with `records.py`, which says what is kept. Then read `file.py`, which writes it, and `reading.py`, which reads
it.
"""
