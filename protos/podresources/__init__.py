"""What pods have been given of a machine."""
