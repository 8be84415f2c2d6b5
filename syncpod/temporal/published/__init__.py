"""What the agent may learn from the states that workflows publish: one port for each purpose, and none gives orders.

`reads` answers queries, `records` feeds the node's journal, `lives` says which pod it is, and `removals` says what a
pod that is gone leaves to the node. Import contracts say who uses which.
"""
