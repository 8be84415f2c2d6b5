"""Settings of a node's worker: flags, else environment variables, else defaults.

The worker and the command line read them here, so that both look in the same directories. Start with :mod:`.table`,
which has a row for each setting, and :mod:`.node`, which has the values. The Temporal connection has the settings of
the ``temporal`` CLI (:mod:`syncpod.temporal.plugin`).
"""
