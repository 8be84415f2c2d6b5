"""The program that is started in a kubelet's place, with a kubelet's flags and configuration."""
