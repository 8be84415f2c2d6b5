"""Pods and nodes through Temporal: found, asked, told, waited for."""
