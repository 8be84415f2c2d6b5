"""The client of storage drivers (CSI v1) and of the plugins that register on a node."""
