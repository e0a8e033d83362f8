"""The filter over files: the same pipeline, with lines for records and no broker.

`lines` reads, `outputs` writes, `sources` remembers which input is which, `engine` is the loop.
"""
