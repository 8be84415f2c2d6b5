"""The kubelet's port of a node in a Kubernetes cluster: serves the API server, `kubectl` and clients of metrics.

:mod:`.port` has the paths and their handlers. :mod:`.access` identifies and authorizes clients, and caches the API
server's answers with :mod:`.remembered`. :mod:`.relay` forwards exec, attach and port-forward to the runtime.
:mod:`.listener` bounds connections, and :mod:`.serving_certificate` makes the TLS. :mod:`.setup` puts all together.
"""
