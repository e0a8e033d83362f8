"""streamfilter: a streaming near-duplicate filter between two Kafka topics.

Put it between two topics; what comes out has each story once, and nothing is ever lost:
duplicates wait in a side topic with the ids, the similarity and the reason.
"""

__version__ = "0.1.0"
