"""The agent's ports to the states that workflows publish: each reads one part of a state, and none sends orders.

`records` feeds the node's journal. `lives` is for the agent's list of pods, and for the removal of a pod's remains. The
ports that answer queries are in `syncpod.messages.reads`. Import contracts limit who may import each port.
"""
