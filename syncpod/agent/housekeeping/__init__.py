"""The node's own cleaning tasks, each with its own period: dead containers, remains of pods, orphans, duplicates.

Log rotation and image garbage collection are in :mod:`syncpod.agent.storage`.
"""
