"""What a node has and keeps: its machine, the directories, volumes, cgroups and records of its pods, their listing."""
