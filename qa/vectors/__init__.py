"""Generates cases, and records a real kubelet's decisions about them by calling the kubelet's own functions."""
