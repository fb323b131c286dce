"""What the groups of a node keep on disk: one write-ahead log for all of them, segments, snapshots and checkpoints.

nodelog      all of a node: its groups, and what each had made durable
group        the log of one group
replay       what the files of a group say, put together
walfile      the format of a file of the write-ahead log
wal          the write-ahead log of a node: batches, one sync per batch, roll-over
segment      the format of a segment: committed entries of one group, which never change
segments     the segments of one group: which of them a start needs, reading, removal
snapshot     the format of a snapshot, which is also that of a checkpoint
snapshots    the snapshots and checkpoints of one group: writing, promotion, thinning, the newest valid one
vote         term and vote of a group
whole        small files that are replaced as a whole
kinds        the numbers of the kinds of entries
damage       the errors of damaged files: file, offset, what to do
"""
