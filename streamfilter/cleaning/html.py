"""The text of a page or of a fragment in HTML.

libxml2 (by lxml) reads the markup. It is compiled, so it is the extra ``html``. Python's own parser
needs 3 minutes for 60 kB of ``<a `` in its older versions. A parser with a tree ends the process on
deep nesting. So no tree is built here: the parser calls us for each tag and each piece of text.

For an end tag, libxml2 looks through all open elements: 320 kB of ``<b>`` and ``</i>`` take a
minute. So a text is fed in pieces, and after `OPEN_MAX` open elements the next piece begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from streamfilter.cleaning.lines import without_surrogates
from streamfilter.stops import of_extra

UNSEEN = frozenset({"script", "style", "template", "noscript", "title", "svg", "iframe", "object"})
"""Elements whose text is not part of the page's text."""

_INLINE = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark q rb rp rt ruby s "
    "samp small span strike strong sub sup time tt u var wbr"
)
INLINE = frozenset(_INLINE.split())  # elements inside a line of text: they do not part two words

MARKUP = re.compile("[<&]")
OPEN_MAX = 256  # elements open at the end of a piece; pages have less than 100
PIECE = 4_096  # characters that are fed at once; a piece ends before its last tag


def html_step() -> Callable[[str], str]:
    """Return the step that makes of HTML the text that a browser shows, or raise `MissingExtra`."""
    with of_extra("html", "similarity.normalise.html"):
        from lxml.etree import HTMLParser

    def plain_text(text: str) -> str:
        if not MARKUP.search(text):
            return text
        found = _Text()
        parser = HTMLParser(target=found, no_network=True)
        for piece in _pieces(without_surrogates(text)):
            if found.open > OPEN_MAX:
                parser.close()
                parser = HTMLParser(target=found, no_network=True)
            parser.feed(piece)
        parser.close()
        return found.text

    return plain_text


def _pieces(text: str) -> Iterator[str]:
    """Yield *text* in pieces that begin with a tag, if there is one near enough."""
    begin = 0
    while len(text) - begin > PIECE:
        tag = text.rfind("<", begin + 1, begin + PIECE)
        end = tag if tag > 0 else begin + PIECE
        yield text[begin:end]
        begin = end
    yield text[begin:]


class _Text:
    """Collects the text between the tags. lxml calls these methods."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unseen = self.open = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.open += 1
        self._unseen += tag in UNSEEN
        self._part(tag)

    def end(self, tag: str) -> None:
        self.open -= 1
        self._unseen -= tag in UNSEEN
        self._part(tag)

    def data(self, text: str) -> None:
        if not self._unseen:
            self._pieces.append(text)

    def comment(self, text: str) -> None:
        """Ignore a comment."""

    def close(self) -> None:
        """Do nothing: all open elements were ended before."""

    def _part(self, tag: str) -> None:
        if tag not in INLINE:
            self._pieces.append("\n")
