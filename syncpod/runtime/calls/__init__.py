"""CRI's calls: validating requests, looking up their subjects, answering them, and injecting faults."""
