"""The steps of a pod, one module for each verb: its function of the same name carries the step out."""
