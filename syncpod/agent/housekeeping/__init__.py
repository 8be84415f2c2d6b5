"""What a node tidies up by itself, each chore with a period of its own: dead containers, gone pods, orphans.

Log rotation (:mod:`syncpod.agent.log_rotation`) and images (:mod:`syncpod.agent.image_gc`) are chores as well.
"""
