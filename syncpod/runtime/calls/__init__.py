"""CRI's calls: validates requests, looks up their subjects, answers them, and injects faults."""
