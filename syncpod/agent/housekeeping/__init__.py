"""What a node tidies up by itself, each chore with a period of its own: dead containers, gone pods, orphans.

Log rotation and images (:mod:`syncpod.agent.storage`) are chores as well.
"""
