"""Quality: is the filter right? Before it runs, on a sample; live, by an audit of its verdicts.

*Before.* `evaluate` compares the verdicts of a run with the exact similarities of its documents.
The inputs and outputs of a run are values (`Run`), and so is the truth (`Truth`). So files, topics
and a brute-force sample are judged in the same way. Nothing in this half depends on the code under
test: equal texts are found by digests of their own.

A document is *expected* to be withheld if an earlier document that was kept is at least
``recall_from`` similar. A withheld document is *right* if it is at least ``precision_from`` similar
to the document that it was matched with. Both leave a margin around the threshold. Within it a
verdict may go either way, because the sets are shingled a little differently.

*Live.* `Audit` compares a few arrivals with the whole index, in slices between the batches
(`Auditing`). `Quality` keeps the latest rounds and returns figures with their confidence.
`ChangeDetector` reports a sudden fall sooner than the figures show it.
"""
