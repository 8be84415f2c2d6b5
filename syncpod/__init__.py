"""syncpod: a pod lifecycle engine in which each pod is a durable Temporal workflow.

Read the rooms in this order: :mod:`syncpod.pod` (what a pod is), :mod:`syncpod.lifecycle` (what to do next, decided
purely), :mod:`syncpod.messages` (what crosses Temporal), :mod:`syncpod.cri` (the runtime), then the top-level
``workflows`` and ``activities`` that connect them, :mod:`syncpod.agent` in the worker's process, and
:mod:`syncpod.cli` for people.
"""
