"""What a node does when it is short of memory, disk or processes: tell, tidy up, put out one pod at a time."""
