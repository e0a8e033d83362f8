"""The filter over files: the same pipeline, with lines or rows as records and without a broker.

`inputs` opens files, `formats` reads them, and `outputs` writes. `sources` numbers the
inputs. `engine` is the loop.
"""
