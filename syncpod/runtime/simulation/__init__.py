"""Simulated containers: timers that follow scripts in their pods' annotations."""
