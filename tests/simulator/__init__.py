"""A pod's whole loop in virtual time: the real workflow and the real steps, over a scripted runtime.

::

    faults ──► simulation ──┬─► server    the SDK's own instance of PodWorkflow, activated without a server
      (Case)                ├─► node      a worker with the real `activities`, its deaths; a model of PLEG and queue
                            │     ├─► loop     the worker's event loop, whose time is the simulation's
                            │     └─► cri      the port to the runtime: calls that take their time, and faults
                            ├─► runtime   sandboxes and containers, whose lives are scripted
                            └─► invariants, recorded    told of everything as it happens; raise Violation

No code of the workflow or the steps is copied or replaced: `workflows`, `activities` and all that they import run
unchanged, with files in memory that outlive a worker. The Temporal server, the node's agent and the CRI runtime are
models. An unforeseen error in a step also fails the simulation.

The faults are a list of events, so a failing seed can be reduced by omitting events (`shrink`) and printed as a test
(`report`). ``python -m tests.simulator 17`` explains a seed, ``--seeds 10000`` runs many, and ``--month`` simulates a
crash-looping pod for a month. A usual test run takes 125 seeds, `make nightly` 20,000.
"""
