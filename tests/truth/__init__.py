"""What should have come of a stream: one oracle for the simulator's stories and for real brokers.

- `changelog`: the batches of a changelog, read from its bytes.
- `history`: the law of the filter, fed in the order that the changelog says.
- `outputs`: output records held to the history.
"""
