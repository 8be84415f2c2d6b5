"""Shared by all Temporal clients of the project: data converter, interceptors, tracing, starting a pod's workflow."""
