"""Chaos, judged from outside the engine: the containers' own notes are compared with the engine's answers.

`python -m qa.chaos --runtime containerd24 --minutes 10 --seed 7` breaks a node for ten minutes.
`python -m qa.chaos double-start` kills the worker at twenty moments of a slow start.
Neither is part of `make test`, but the tests of the checker are.
"""
