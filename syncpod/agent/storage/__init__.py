"""What the agent watches on disks: limits of pods, unused images, logs that grow, volumes that changed."""
