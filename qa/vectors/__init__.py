"""Decisions of a real kubelet, recorded by calling its own functions, and the generator of the cases."""
