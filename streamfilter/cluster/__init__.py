"""One index over many processes: edges read, sketch and forward; one judge decides.

An edge reads input partitions and sends **sketch ranges**. The judge is the task of `tasks/` with
another log: it reads sketch ranges, and its outputs are **verdict ranges**. The edge that owns the
partition reads these and forwards the records. `ranges.py` has the messages, `acceptance.py` says
which of them count. No client library is used here; `kafka/` implements the ports.
"""
