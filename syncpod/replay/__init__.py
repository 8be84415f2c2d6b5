"""Replays the recorded history of a run against the workflows of this tree, and names the first decision that differs.

No worker and no running workflow takes part. In the order of use: :mod:`.history` reads a history from a file,
:mod:`.run` replays it, :mod:`.decisions` extracts the decisions of the history and of the replay, :mod:`.wording`
describes them, and :mod:`.comparison` finds the first that differs.
"""
