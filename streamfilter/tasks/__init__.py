"""The life cycle of a task: assigned, started, restored, advanced, standing by, dropped.

The consumer group assigns the tasks; the engine moves their batches.
"""
