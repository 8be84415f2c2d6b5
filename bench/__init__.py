"""What the engine costs over the runtime's own calls: ``make bench``, or ``python -m bench --help``.

Read in this order: :mod:`.stage` (the real things it runs on), :mod:`.watch` (when something has come to pass, by one
clock for both sides), :mod:`.bare` and :mod:`.engine` (the two sides), :mod:`.races` (the two in turn), :mod:`.lives`,
:mod:`.idle`, :mod:`.local` (what is counted or timed alone), and :mod:`.table`.
"""
