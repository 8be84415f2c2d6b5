"""Replays the recorded history of a run against the workflows of this tree, and names the first decision that differs.

Nothing is asked of a worker, and nothing is sent to the workflow. In the order of use: :mod:`.history` reads a history
from a file, :mod:`.run` replays it, :mod:`.decisions` is what a history and a replay are compared by, :mod:`.wording`
says each of them for a reader, and :mod:`.comparison` finds the first that differs.
"""
