"""syncpod: a pod lifecycle engine in which each pod is a durable Temporal workflow.

Read the rooms in this order: :mod:`syncpod.pod` (the models of a pod), :mod:`syncpod.lifecycle` (the pure decisions),
:mod:`syncpod.messages` (everything that crosses Temporal), :mod:`syncpod.cri` (the runtime), then the top-level
``workflows`` and ``activities`` that connect them, :mod:`syncpod.agent` in the worker's process, and :mod:`syncpod.cli`
for people.
"""
