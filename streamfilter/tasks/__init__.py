"""The life of a task: taken, started, restored, advanced, standing by, dropped.

Which tasks are ours the group says; what moves their batches is the engine.
"""
