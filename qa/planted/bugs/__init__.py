"""All planted bugs, in the order of the modules here."""

from qa.planted.bugs import activities, agent, decisions, edges, files, hostile, runtimes, workflows
from qa.planted.plant import Plant

TABLE: tuple[Plant, ...] = (
    *workflows.BUGS,
    *activities.BUGS,
    *decisions.BUGS,
    *files.BUGS,
    *runtimes.BUGS,
    *agent.BUGS,
    *edges.BUGS,
    *hostile.BUGS,
)
