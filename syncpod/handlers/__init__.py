"""The ways in which a container is spoken to: a command in it, HTTP, a TCP connection, gRPC; for probes and hooks."""
