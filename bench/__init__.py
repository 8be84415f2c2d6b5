"""What the engine costs over the runtime's own calls: ``make bench``, or ``python -m bench --help``.

Read in this order: :mod:`.stage` (the real things it runs on), :mod:`.watch` (when something has come to pass, by one
clock for both sides), :mod:`.bare` and :mod:`.engine` (the two sides), :mod:`.races` (the two in turn), :mod:`.lives`,
:mod:`.idle`, :mod:`.local` (what is counted or timed alone), and :mod:`.table`. With ``--only``, alone and for minutes:
:mod:`.simulated`, thousands of pods that are timers, and :mod:`.probes`, what so many of them cost.

Programs by themselves, each on every runtime (:mod:`.on_runtimes`): ``python -m bench.stop_cases`` and
``bench.crash_points``, which write docs/stopping.md and docs/crash-points.md, and ``bench.takeover``, which says how
soon 50 pods answer after their worker's death.
"""
