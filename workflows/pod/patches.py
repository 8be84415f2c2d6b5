"""The names of the changes to PodWorkflow that were made by patch, and what a run without each does.

A run whose decisions are of version ``ATTENTIVE`` or newer has all of them and writes no marker; the names serve runs
that older versions have begun. So a change that is made by patch from here on does not ask `PodWorkflow.patched` but
`workflow.patched` itself: runs of that version are open which do not have it (docs/upgrading.md).
"""

RESIZES = "2026-11-an-update-may-resize"
"""Before it a Pod document that changes resources was refused."""

BESIDE = "2026-11-pulls-run-beside-other-steps"
"""Before it a pull was a step like any other, and held up the whole pod."""

REPLACED = "2026-11-what-is-ended-to-run-again-runs-again"
"""Before it a container ended by a probe or a new definition rested if its policy let it rest by its code."""

ROUNDS = "2026-11-a-restart-of-all-containers-has-one-back-off"
"""Before it each container of a pod that restarts all had the back-off of its own crashes."""

FINISHED = "2026-11-every-pod-that-is-over-is-killed-once"
"""Before it a pod of which nothing was left to stop kept its place on the node until it was deleted."""

AS_ALLOCATED = "2026-11-what-comes-to-the-same-needs-no-resize"
"""Before it a container whose new resources came to those it had was behind until it was started anew."""

HURRIED = "2026-11-an-end-does-not-wait-for-what-was-stuck-before"
"""Before it a deletion, an eviction or a deadline waited out the back-off of a kill of before that was stuck."""

OUTDATED = "2026-11-a-no-to-what-is-no-longer-desired-says-nothing"
"""Before it a late answer to a resize that another had followed was taken for the answer to that."""

LENIENT = "2026-11-a-back-off-of-all-containers-holds-no-ephemeral-ones"
"""Before it that back-off held ephemeral containers too, and only its own name ended it."""

RECORDED = "2026-11-what-is-recorded-decides"
"""Before it what the runtime no longer listed had never run."""

GOVERNED = "2026-11-a-pod-says-how-it-is-restarted"
"""Before it the annotations on back-off and restart limit were passed over."""

ANEW = "2026-11-what-follows-follows-in-another-sandbox-too"
"""Before it a container ended to run again, whose sandbox was lost before that, could be given up."""

ONE_AT_A_TIME = "2026-11-the-end-of-one-back-off-ends-no-other"
"""Before it the end of a failed start's back-off ended the container's crash loop, too."""

PARTS = "2026-11-very-many-signals-are-absorbed-in-parts"
"""Before it a full inbox was absorbed in the handler of the signal that filled it."""

ATTENTIVE = 2
"""The version of decisions since which what comes in while a step runs is taken then, and a pod's end ends a kill of
one of its containers."""
