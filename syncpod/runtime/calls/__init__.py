"""CRI's calls: validating requests, finding what they are about, answering them, and injecting faults."""
