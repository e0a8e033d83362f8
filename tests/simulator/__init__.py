"""The engine behind its ports, in a world that does its worst: one seed, one story.

What runs is production's: `kafka.service`, `task`, `task_start`, `restore`, `transactor`, the
reader, the pipeline, the forwarder. What is simulated stands behind the ports of
`kafka.ports` and `kafka.store`: a broker with transactions, a group, clocks and disks. All of it
is one thread and one random generator, so a seed is a story that replays exactly.

Several processes live in one world. At every call on a port the world may crash the caller.
Or it pauses the caller for any time while the others go on; a zombie resumes where it was.
Rates are drawn per seed, and many faults are off in any one seed, so that rare pairs of faults
meet undisturbed.

Read in this order: `broker.py` (partitions, transactions), `group.py`, `disk.py`: what survives.
`dictionaries.py`: the database below the index.
`log.py` and `membership.py`: the ports, and what a client library does wrong. `world.py`: time,
chance, crashes. `process.py`: the engine put together. `events.py` and `chapters.py`: what
befalls it. `life/`: an index that is filled, corrected, copied.
`oracle.py`: what must be true at the end. `story.py`: one seed from start to end.

`python -m tests.simulator --seeds 0:10000` runs a range; `--story` tells each one.
"""
