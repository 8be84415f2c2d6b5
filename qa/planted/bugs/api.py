"""Bugs in the node's API."""

from qa.planted.plant import Plant

API = "syncpod/api"

BUGS = (
    Plant(
        name="recorded-pods-as-whole-ones",
        room=API,
        file="syncpod/api/pods.py",
        before="recorded=asked.wants_table and not is_whole and not fields.fields",
        after="recorded=True",
        harm="A worker that has just begun answers with half a Pod where the whole one is asked for.",
        tests=("tests/agent/test_node_api.py",),
    ),
    Plant(
        name="list-without-its-last-pods",
        room=API,
        file="syncpod/api/lists.py",
        before="for at in range(0, len(things), _AT_ONCE):",
        after="for at in range(0, len(things) - _AT_ONCE, _AT_ONCE):",
        harm="A list of pods ends early, and looks whole.",
        tests=("tests/agent/test_node_api.py",),
    ),
)
