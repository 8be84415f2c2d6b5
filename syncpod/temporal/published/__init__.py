"""The agent's ports to the states that workflows publish: one for each purpose, and none gives orders.

`records` feeds the node's journal, `lives` says which pod it is, and `removals` says what a pod that is gone leaves to
the node. The ports that answer queries are in `syncpod.messages.reads`. Import contracts say who uses which.
"""
