"""All hundred and eleven bugs, in the order of the rooms."""

from qa.planted.bugs import activities, agent, api, decisions, edges, embedded, files, hostile, runtime_port, workflows
from qa.planted.plant import Plant

TABLE: tuple[Plant, ...] = (
    *workflows.BUGS,
    *activities.BUGS,
    *decisions.BUGS,
    *files.BUGS,
    *runtime_port.BUGS,
    *agent.BUGS,
    *api.BUGS,
    *embedded.BUGS,
    *edges.BUGS,
    *hostile.BUGS,
)
