"""Periodic cleanups of the node: removes dead containers, remains of pods, orphans and duplicates.

Log rotation and image garbage collection are in :mod:`syncpod.agent.storage`.
"""
