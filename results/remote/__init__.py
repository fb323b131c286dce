"""Stores that are read and written through a service: s3://, gs://, hdfs://, and file:// on a disk that several share.

    PREFIX/_runs/test=<name>/<run>.json         a run is there if, and only if, this manifest is: it is written last
    PREFIX/test=<name>/run=<run>/test.json      the files of the run, as they were pushed; they never change
                                /history.parquet, ...
                                /verdict.json, figures.json, report.html, ...   what is made from them, and may change

<run> is the name that the run was recorded with, and twelve digits of a digest of what was recorded: the same run has
the same name from wherever it is pushed, and two runs of one name, by two machines that began at the same millisecond
with the same seed, have two. So nothing need be locked: each machine that writes a file of a run writes the same bytes.

pyarrow's file systems do the work (`splitbrain.results.remote.objects`). Nothing is judged or drawn there: what needs
the files of a run gets copies in a folder of this machine (`splitbrain.results.remote.copies`), and what it made is put
beside them.
"""
