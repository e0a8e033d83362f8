"""The filter over files: the same pipeline, with lines or rows for records and no broker.

`inputs` opens, `lines` and `formats` read, `outputs` writes, `sources` remembers which input is
which, `engine` is the loop.
"""
