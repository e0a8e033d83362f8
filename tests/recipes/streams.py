"""Labelled streams: documents as they come from papers, mail, logs and other sources.

Each function yields (story, record). A story that comes again has the words of another
source. Stories of one kind share what such texts share: templates, background, footers.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from streamfilter.bench import prose
from streamfilter.stories.disguises import NAMES, PAPERS

Labelled = Iterator[tuple[str, dict[str, Any]]]
"""(story, record) of each document, in order."""

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
TOWNS = ("Lisbon", "Oslo", "Nairobi", "Lima", "Osaka", "Turin", "Halifax", "Perth", "Tallinn",
         "Bergen", "Cork", "Dakar", "Graz", "Hobart", "Kyoto", "Lyon", "Minsk")  # fmt: skip


class Writer:
    """Writes passages of prose, no two alike."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self._sources = [source for source in prose.sources() if len(source) > 3]
        self._left = [sentence for source in self._sources for sentence in source]
        self.rng.shuffle(self._left)

    def sentences(self, count: int) -> list[str]:
        """Return *count* sentences from several places."""
        return [self.rng.choice(self.rng.choice(self._sources)) for _ in range(count)]

    def openings(self, count: int, words: tuple[int, int]) -> list[str]:
        """Return the first *words* words, from so many to so many, of sentences used only once."""
        return [
            " ".join(self._left.pop().split()[: self.rng.randint(*words)]) for _ in range(count)
        ]

    def paragraphs(self, count: int, sentences: int = 4) -> list[str]:
        """Return *count* paragraphs."""
        return [" ".join(self.sentences(sentences)) for _ in range(count)]

    def numbers(self, count: int) -> list[str]:
        """Return *count* figures as statistics print them."""
        choices: tuple[Callable[[], str], ...] = (
            lambda: f"{self.rng.uniform(0.1, 9.9):.1f}%",
            lambda: f"{self.rng.randrange(1_000, 99_999):,}",
            lambda: f"{self.rng.randrange(11, 990)}",
        )
        return [self.rng.choice(choices)() for _ in range(count)]

    def told_again(self, stories: int, share: float = 0.35) -> Iterator[tuple[int, int]]:
        """Yield (story, which telling): each story once, and *share* of them again later."""
        told: list[int] = []
        fresh = 0
        while fresh < stories:
            if told and self.rng.random() < share:
                yield self.rng.choice(told[-200:]), self.rng.randrange(1, 99)
            else:
                told.append(fresh)
                yield fresh, 0
                fresh += 1


def news(seed: int, stories: int) -> Labelled:
    """Agency stories in papers: another headline, cut from the end, with the paper's own frame.

    One story in three shares a paragraph of background with earlier ones.
    """
    writer = Writer(f"news {seed}")
    rng = writer.rng
    background = writer.paragraphs(20, 3)
    menus = {paper: _words(writer, rng.randint(10, 30)).title() for paper in PAPERS}
    told = []
    for _ in range(stories):
        own = writer.paragraphs(rng.randint(3, 6))
        told.append(own + [rng.choice(background)] * (rng.random() < 0.35))
    for story, telling in writer.told_again(stories):
        paper, body = rng.choice(PAPERS), list(told[story])
        if telling:
            body = body[: max(2, len(body) - rng.randint(0, 2))]
            body[0] = _typed(rng, body[0])
        headline = " ".join(told[story][0].split()[: rng.randint(5, 9)])
        frame = f"{rng.choice(TOWNS)} ({rng.choice(('Agency', 'own report', paper))}) -"
        foot = f"Copyright {paper}. All rights reserved. Reporting by {rng.choice(NAMES)}."
        parts = [menus[paper], headline, f"{frame} {body[0]}", *body[1:], foot]
        text = "\n\n".join(parts)
        yield f"{story}", {"url": f"{paper}/{rng.getrandbits(32)}", "body": text}


def press(seed: int, stories: int) -> Labelled:
    """Releases of offices: one template a series, other figures each month; some come twice."""
    writer = Writer(f"press {seed}")
    rng = writer.rng
    series = [writer.sentences(rng.randint(6, 14)) for _ in range(max(stories // 12, 2))]
    about = writer.paragraphs(len(series), 3)
    told = []
    for story in range(stories):
        kind = rng.randrange(len(series))
        month = f"{rng.choice(MONTHS)} {2015 + story % 10}"
        lines = [f"In {month}, {line}" if rng.random() < 0.2 else line for line in series[kind]]
        places = rng.sample(range(len(lines)), rng.randint(2, 5))
        for place, number in zip(places, writer.numbers(len(places)), strict=True):
            lines[place] += f" This was {number} more than in the year before."
        told.append((f"Index of {month}", lines, about[kind]))
    for story, telling in writer.told_again(stories, share=0.25):
        title, lines, last = told[story]
        body = [_typed(rng, each) if telling and rng.random() < 0.1 else each for each in lines]
        ends = f"Contact: {rng.choice(NAMES)}" if telling else "Contact: press office"
        yield f"{story}", {"text": "\n".join([title, *body, last, ends])}


def mail(seed: int, stories: int) -> Labelled:
    """Mail to a list: answers below a long quote; forwarded again with `Fw:` and other lines."""
    writer = Writer(f"mail {seed}")
    rng = writer.rng
    first = [" ".join(writer.sentences(15)) for _ in range(max(stories // 8, 1))]
    answers = [" ".join(writer.openings(rng.randint(1, 3), (6, 25))) for _ in range(stories)]
    for story, telling in writer.told_again(stories, share=0.25):
        quoted = "\n".join(f"> {line}" for line in _wrapped(first[story % len(first)], 68))
        day = f"{rng.randint(1, 28)} {rng.choice(MONTHS)} 2026"
        who = rng.choice(NAMES)
        if telling and rng.random() < 0.5:
            quoted = "\n".join(f"> {line}" for line in quoted.splitlines())
        answer = "\n".join(_wrapped(answers[story], rng.choice((60, 72, 80))))
        yield f"{story}", {"text": f"{answer}\n\nOn {day}, {who} wrote:\n{quoted}\n"}


def logs(seed: int, stories: int) -> Labelled:
    """Lines of *stories* templates: other times, hosts, numbers and ids in each; 20 lines each."""
    writer = Writer(f"logs {seed}")
    rng = writer.rng
    templates = [" ".join(each.split()[:9]).rstrip(".,") for each in writer.sentences(stories)]
    values: tuple[Callable[[], str], ...] = (
        lambda: f"{rng.randrange(1, 10**6)} ms",
        lambda: f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}:443",
        lambda: f"request {rng.getrandbits(128):032x}",
        lambda: f"/var/spool/{rng.getrandbits(32):08x}/part-{rng.randrange(99)}",
    )
    lines = [(story, rng.sample(values, 2)) for story in range(stories)]
    for number in range(20 * stories):
        story, (one, other) = lines[number % stories] if number < stories else rng.choice(lines)
        time = f"2026-11-{rng.randint(1, 28):02d}T{rng.randrange(24):02d}:{rng.randrange(60):02d}:"
        time += f"{rng.uniform(0, 59.9):06.3f}Z"
        level = f"\x1b[3{1 + story % 6}m{('INFO', 'WARN', 'ERROR')[story % 3]}\x1b[0m"
        message = f"{time} {level} {templates[story]} {one()} from {other()}"
        yield f"{story}", {"message": message}


def social(seed: int, stories: int) -> Labelled:
    """Posts: forwarded with `RT @name:`, other tracking parameters, tags and signs."""
    writer = Writer(f"social {seed}")
    rng = writer.rng
    posts = writer.openings(stories, (9, 30))
    links = [f"https://paper.example/{rng.getrandbits(40):010x}" for _ in range(stories)]
    for story, telling in writer.told_again(stories):
        text = posts[story]
        campaign = f"?utm_source={rng.choice(NAMES).lower()}&utm_medium=s{rng.randrange(99)}"
        text += f" {links[story]}{campaign if rng.random() < 0.7 else ''}"
        if telling:
            ways = (f"RT @{rng.choice(NAMES)}{rng.randrange(99)}: {text}",
                    f"{text} #{rng.choice(TOWNS)}", text.replace("'", "’").upper(),
                    f"{text} \N{FIRE}\N{FIRE} via @{rng.choice(NAMES)}")  # fmt: skip
            text = rng.choice(ways)
        yield f"{story}", {"text": text}


def titles(seed: int, stories: int) -> Labelled:
    """Headlines: with the paper's name behind, another quote sign, a colon, a typing error.

    Figures differ between stories of one kind: `3 injured in Turin`, `5 injured in Turin`.
    """
    writer = Writer(f"titles {seed}")
    rng = writer.rng
    told = []
    for _ in range(stories):
        title = writer.openings(1, (7, 12))[0].rstrip(".,")
        if rng.random() < 0.3:
            title = f"{rng.randrange(2, 90)} reports in {rng.choice(TOWNS)} this {_week(rng)}"
        told.append(title)
    stories_of = {title: f"{story}" for story, title in enumerate(told)}
    for story, telling in writer.told_again(stories):
        title = told[story]
        if telling:
            ways = (f"{title} - {rng.choice(PAPERS)}", title.upper(), f"“{title}”",
                    _typed(rng, title), f"{title} | {rng.choice(PAPERS)}")  # fmt: skip
            title = rng.choice(ways)
        yield stories_of[told[story]], {"title": title}


def _week(rng: random.Random) -> str:
    return rng.choice(("morning", "week", "month", "evening after the storm", "winter so far"))


def tickets(seed: int, stories: int) -> Labelled:
    """Tickets that are sent again: typed anew, with another greeting and signature."""
    writer = Writer(f"tickets {seed}")
    rng = writer.rng
    told = [" ".join(writer.openings(rng.randint(1, 3), (99, 99))) for _ in range(stories)]
    for story, telling in writer.told_again(stories):
        text = told[story]
        if telling:
            for _ in range(rng.randint(1, 3)):
                text = _typed(rng, text)
        hello = rng.choice(("Hi,", "Hello", "Dear team,", ""))
        yield f"{story}", {"description": f"{hello} {text} {rng.choice(('', rng.choice(NAMES)))}"}


def web(seed: int, stories: int) -> Labelled:
    """Pages of eight sites: 60 to 300 words of menu, cookies and footer around an article."""
    writer = Writer(f"web {seed}")
    rng = writer.rng
    frames = [
        (_words(writer, rng.randint(20, 100)), _words(writer, rng.randint(40, 200)))
        for _ in range(8)
    ]
    articles = [writer.paragraphs(rng.randint(2, 4)) for _ in range(stories)]
    for story, telling in writer.told_again(stories):
        site = rng.randrange(len(frames))
        menu, footer = frames[site]
        body = "".join(f"<p class='c{rng.randrange(9)}'>{each}</p>" for each in articles[story])
        if telling:
            body = body.replace("<p class", f"<div><p id='{rng.getrandbits(24)}' class")
        page = f"<html><head><script>var t={rng.getrandbits(40)};</script></head><body>"
        page += f"<nav>{menu}</nav>{body}<footer>{footer}</footer></body></html>"
        yield f"{story}", {"html": page}


def _words(writer: Writer, count: int) -> str:
    return " ".join(" ".join(writer.sentences(count // 8 + 1)).split()[:count])


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += f"{word} "
    return [line.rstrip() for line in lines]


def _typed(rng: random.Random, text: str) -> str:
    """Return *text* with one typing error: two letters in the wrong order, or one missing."""
    place = rng.randrange(1, max(len(text) - 2, 2))
    if rng.random() < 0.5:
        return text[:place] + text[place + 1 :]
    return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


STREAMS: dict[str, Callable[[int, int], Labelled]] = {
    "news": news, "mail": mail, "logs": logs, "social": social, "tickets": tickets,
    "web": web, "press": press, "titles": titles,
}  # fmt: skip
"""The streams by the name of their example."""
