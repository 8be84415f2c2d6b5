"""Checks of the whole product from outside: chaos, comparison with a kubelet, planted bugs, conformance, manifests.

They take minutes to hours, and need real runtimes or a kubelet. Tests of their own code are in ``tests/qa``.
docs/testing.md says how to run each of them.
"""
