"""Evaluation: was a run right? Judged against the exact similarities of its documents.

What a run was given and where it put things come in as values (`Run`), and so does the truth
(`Truth`), so that files, topics and a brute-force sample can be judged alike. Nothing here
asks the code under test: equal texts are told by digests that the reader made on its own.

A document is *expected* to be withheld if an earlier document that was kept is at least
``recall_from`` similar; a withheld one is *right* if it is at least ``precision_from`` similar
to the document it was matched with. Both leave a margin around the threshold, where a verdict
may go either way for the reason that the sets are shingled a little differently.
"""
