"""A news-like stream with planted duplicates, made of real English prose.

`prose` finds sentences in the documentation of the installed Python. `disguises` imitates the ways
a story comes back: with a header, with an advert, with a cropped end, and so on. `stream` mixes
both into an endless sequence that a seed determines. The demo uses it, and so may measurements.
"""
