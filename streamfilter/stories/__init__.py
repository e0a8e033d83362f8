"""A news-like stream with planted duplicates, made of real English prose.

`prose` finds sentences in the Python installation's own documentation, `disguises` imitates the
ways a story comes back (a header, an advert, a cropped end, …), and `stream` mixes both into an
endless sequence that a seed determines. The demo shows it; measurements may use it.
"""
