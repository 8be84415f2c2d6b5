"""Seventy-nine plausible bugs, to measure whether the suite finds them.

`python -m qa.planted` plants each of them into a copy of the tree and runs the tests that ought to find it;
`python -m qa.planted NAME...` does so with some. A bug that is not found is a test that is missing. The bugs are in
`bugs/`, by room, and `table.py` joins them.
"""
