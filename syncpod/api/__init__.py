"""The node's HTTP API: its requests and answers, its table of routes, and the client of its unix socket.

The paths and types are Kubernetes' where it has them. The handlers know neither a socket nor a server of Temporal: they
get pods from a :class:`~syncpod.api.source.PodSource`. A node's worker serves them on a unix socket
(:mod:`syncpod.agent.api_server`).
"""
