"""Chaos, judged from outside the engine: what containers note of themselves, against what the engine says of them.

`python -m tests.chaos --runtime containerd24 --minutes 10 --seed 7` breaks a node for ten minutes.
`python -m tests.chaos double-start` kills the worker at twenty moments of a slow start.
Neither is part of `make test`; the checker is.
"""
