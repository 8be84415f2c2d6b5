"""Plausible bugs, to measure whether the test suite finds them.

`python -m qa.planted` puts each bug into a copy of the tree and runs the tests that should find it;
`python -m qa.planted NAME...` does so with the named ones. If a bug is not found, a test is missing. `bugs/` has the
bugs, a module for each room or group of rooms, and its `TABLE` has all of them.
"""
