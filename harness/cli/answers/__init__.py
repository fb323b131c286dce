"""The shape of every answer that a command gives with `--json`, and the format that it has.

Types only: no command needs them to run. `tools/schemas.py` makes docs/json of them, and tests check real answers by
them. A field may be added to a format; one that goes, or changes its type or meaning, makes the next format.
"""
