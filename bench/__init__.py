"""Measures what the engine costs compared with bare CRI calls: ``make bench``, or ``python -m bench --help``.

Read in this order: :mod:`.stage` (the real processes that are measured), :mod:`.watch` (one clock for both sides),
:mod:`.bare` and :mod:`.engine` (the two sides), :mod:`.races` (the two sides in turn), :mod:`.lives`, :mod:`.idle` and
:mod:`.local` (measurements of the engine only), and :mod:`.figures`. :mod:`.against` compares with a kubelet and with
:mod:`.prototype`, which makes the same calls through Temporal and does nothing else. Four benchmarks run only with
``--only`` and take minutes: :mod:`.simulated`, :mod:`.growth`, :mod:`.probes` and :mod:`.signatures`.

Separate programs, each run on every runtime (:mod:`.on_runtimes`): ``python -m bench.stop_cases`` and
``bench.crash_points``, which write docs/engineering/stop-cases.md and docs/crash-points.md, and ``bench.takeover``,
which measures how soon 50 pods answer after the death of their worker.
"""
