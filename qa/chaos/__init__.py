"""Chaos tests, judged from outside the engine: notes that containers write are compared with the engine's answers.

`python -m qa.chaos --runtime containerd24 --minutes 10 --seed 7` causes faults on a node for ten minutes.
`python -m qa.chaos double-start` kills the worker at twenty moments of a slow start.
Neither is part of `make test`, which has only the tests of the checker.
"""
