"""Handlers of probes and lifecycle hooks: exec, HTTP, TCP, and gRPC."""
