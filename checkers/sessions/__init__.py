"""Session guarantees of registers: monotonic reads and writes, read your writes, writes follow reads.

The four are from Terry, Demers, Petersen, Spreitzer, Theimer and Welch ("Session guarantees for weakly consistent
replicated data", PDIS 1994), in the form of Viotti and Vukolic ("Consistency in non-transactional distributed storage
systems", ACM Computing Surveys 2016): there is one order of all writes, and what a session saw and did says which write
comes before which. `reading` finds the version that each read returned, `evidence` what must come before what,
`precedence` whether an order exists, `words` says why not.
"""

from splitbrain.checkers.sessions.checker import Sessions

__all__ = ["Sessions"]
