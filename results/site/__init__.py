"""The store as a web site: what `splitbrain serve` serves.

    messages    a request and a response, as values
    beneath     the only way to files: opened one folder after the other, following no link
    rows        the table's rows, read once and again only when their files change
    selection   filters, order and pages of the table
    matrix      the nightly page: the worst outcome of each workload and nemesis, on each system and backend
    trends      figures of a test over its runs
    files       a run's files: how each may be looked at, and all of them in one archive
    pages       HTML, by templates that escape all that they are given
    routes      which request gets which answer
    server      HTTP around all that

Everything but `server` is a function of its arguments and of the store. What stands in a store was written by a
system under test that may be broken or hostile: it is text, never markup, and its paths lead nowhere else.
"""
