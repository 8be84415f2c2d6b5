"""Outside checks of the whole product: chaos, comparison with a kubelet, planted bugs, conformance suites, manifests.

They need minutes to hours, real runtimes, or a kubelet. Their own tests are in ``tests/qa``. docs/testing.md says how
to run each of them.
"""
