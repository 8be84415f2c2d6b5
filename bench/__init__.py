"""Measures what the engine costs compared with bare CRI calls: ``make bench``, or ``python -m bench --help``.

Read in this order: :mod:`.stage` (the real processes it runs on), :mod:`.watch` (when something happened, by one clock
for both sides), :mod:`.bare` and :mod:`.engine` (the two sides), :mod:`.races` (the two sides in turn), :mod:`.lives`,
:mod:`.idle`, :mod:`.local` (what is measured without a counterpart), and :mod:`.figures`. :mod:`.against` compares with
a kubelet and with a prototype that is nothing but Temporal and the calls (:mod:`.prototype`). Two benchmarks run only
with ``--only`` and take minutes: :mod:`.simulated`, thousands of simulated pods, and :mod:`.probes`, the cost of their
probes.

Separate programs, each run on every runtime (:mod:`.on_runtimes`): ``python -m bench.stop_cases`` and
``bench.crash_points``, which write docs/engineering/stop-cases.md and docs/crash-points.md, and ``bench.takeover``,
which measures how soon 50 pods answer after the death of their worker.
"""
