"""The pod's workflow: the durable loop that decides and runs the steps.

:mod:`workflows.pod` is the only module that the Temporal sandbox loads for each run; everything else here is pure and
passed through. Start with :mod:`workflows.pod` (the loop), then :mod:`workflows.decide` (what next), and
:mod:`workflows.absorb` (what comes in).
"""
