"""Checks of the similarity and verification settings together: is such a shape possible?"""

from collections.abc import Callable, Iterable, Iterator
from math import comb

from streamfilter.config.configuration import Config
from streamfilter.similarity.statistics.shape import CONTAINED_RATIO, Shape, plan
from streamfilter.stops import Problem

Check = Callable[[Config], Iterable[Problem]]


def _shape(config: Config) -> Iterator[Problem]:
    """The first thing that is wrong with slots, bands and rows: the others would follow from it."""
    similarity = config.similarity
    bands, rows, slots = similarity.bands, similarity.rows, similarity.slots
    if config.input.records:
        return  # a band for each field: nothing to plan
    if bands is None and rows is None:
        yield from _plan(config)
    elif similarity.layout == "random":
        yield from _random_shape(config)
    elif bands and rows and bands * rows > slots:
        yield Problem(
            "similarity.bands",
            f"{bands} bands x {rows} rows = {bands * rows} slots, but similarity.slots is {slots}",
            _other_shapes(config, rows),
        )
    elif max(bands or 0, rows or 0) > slots:
        key = "bands" if bands else "rows"
        got = f"{bands or rows} is more than similarity.slots, {slots}"
        cure = "use fewer, or leave it out: it is planned from recall"
        yield Problem(f"similarity.{key}", got, cure)
    else:
        yield from _recall(config)


def _random_shape(config: Config) -> Iterator[Problem]:
    similarity = config.similarity
    bands, rows, slots = similarity.bands, similarity.rows, similarity.slots
    if bands is None or rows is None:
        yield Problem(
            "similarity.layout",
            "random keys need both similarity.bands and similarity.rows, or neither",
            "bands: 125 and rows: 3 is the classic; leave out both, and they are planned",
        )
    elif rows > slots:
        yield Problem("similarity.rows", f"{rows} is more than similarity.slots, {slots}",
                      "use fewer rows, or more slots")  # fmt: skip
    elif bands > comb(slots, rows):
        ways = comb(slots, rows)
        got = f"there are only {ways} ways to choose {rows} of {slots} slots, not {bands}"
        yield Problem("similarity.bands", got, f"use at most {ways}, or more slots")
    else:
        yield from _recall(config)


def _recall(config: Config) -> Iterator[Problem]:
    """A shape by hand that misses a recall loses duplicates in silence."""
    similarity, shape = config.similarity, Shape.of(config.scheme())
    given, better = "bands" if similarity.bands else "rows", _planned(config)
    for key, at, wanted, pairs in _wanted(config):
        found = shape.probability(at)
        if found >= wanted:
            continue
        cure = f"{key}: {_cut(found)} if that is enough"
        if better is not None:
            share = _share(better.probability(at))
            cure = f"leave out bands and rows: {better} finds {share}; or {cure}"
        got = f"{shape} finds only {_share(found)} of {pairs}, but {key} is {wanted:g}"
        yield Problem(f"similarity.{given}", got, cure)
        return


def _wanted(config: Config) -> Iterator[tuple[str, float, float, str]]:
    """Yield setting, similarity, share of its pairs that must be found, and these in words."""
    at, contained = config.similarity.threshold, config.contained_pairs
    yield "similarity.recall", at, config.similarity.recall, f"the pairs at {_share(at)}"
    if contained is not None:
        share = f"the texts contained in one of {CONTAINED_RATIO:g} times their size"
        yield "verify.containment_recall", *contained, share


def _plan(config: Config) -> Iterator[Problem]:
    slots, layout = config.similarity.slots, config.similarity.layout
    for key, at, wanted, pairs in _wanted(config):
        try:
            plan(at, slots=slots, recall=wanted, layout=layout)
        except ValueError:
            best = _share(Shape(slots, 1, slots).probability(at))
            got = f"{wanted:g} of {pairs} cannot be found with {slots} slots"
            cure = f"lower {key.split('.')[1]}: {slots} bands of 1 row find {best}"
            yield Problem(key, got, f"raise similarity.slots, or {cure}")
            return


def _planned(config: Config) -> Shape | None:
    """Return the planner's shape, or None where no shape reaches the recall."""
    try:
        return config.planned()
    except ValueError:
        return None


def _other_shapes(config: Config, rows: int) -> str:
    """Return what fits: the same rows with fewer bands, and the planner's own shape."""
    slots, threshold = config.similarity.slots, config.similarity.threshold
    shapes = [Shape(slots // rows, rows, slots)] if rows <= slots else []
    shapes.append(_planned(config) or Shape(slots, 1, slots))
    cures: list[str] = []
    for shape in dict.fromkeys(shapes):
        found = shape.probability(threshold)
        verb = "finds" if found >= config.similarity.recall else "fits, but finds only"
        pairs = f" of the pairs at {_share(threshold)}" if not cures else ""
        cures.append(f"{shape} {verb} {_share(found)}{pairs}")
    return "; ".join(cures)


def _cut(value: float) -> float:
    """Return a share cut to three digits, never 0: what one may write to accept it."""
    return max(int(value * 1000) / 1000, 1e-6) if value >= 0.001 else float(f"{value / 2:.1g}")


def _share(value: float) -> str:
    """Return .947 for .9474, .80 for .8, 1 for 1: cut, so that a share never looks better."""
    cut = int(value * 1000 + 1e-9) / 1000
    return f"{cut:.3f}".removesuffix("0").lstrip("0") if cut < 1 else "1"


def _languages(config: Config) -> Iterator[Problem]:
    shingle = config.similarity.shingle
    if shingle.kind != "stopword":
        return
    from streamfilter.similarity.text.stopwords import stop_words  # reading the lists takes 150 ms

    try:
        stop_words(shingle.languages)
    except ValueError as error:
        yield Problem("similarity.shingle.languages", str(error),
                      "use those, or kind: char for scripts without spaces")  # fmt: skip


def _sketch_rule(config: Config) -> Iterator[Problem]:
    verify, slots = config.verify, config.similarity.slots
    if verify.method != "sketch":
        return
    if verify.agree > verify.of:
        yield Problem("verify.agree", f"{verify.agree} of {verify.of} slots cannot agree",
                      f"use 1 to {verify.of}; 90 of 100 is the classic")  # fmt: skip
    if verify.of > slots:
        yield Problem("verify.of", f"{verify.of} slots, but similarity.slots is {slots}",
                      f"use at most {slots}, or more similarity.slots")  # fmt: skip
    for name in ("containment", "short_threshold"):
        if getattr(verify, name) is not None:
            yield Problem(f"verify.{name}", "method sketch counts slots and knows no sizes",
                          "leave it out, or use method: exact")  # fmt: skip


def _short_threshold(config: Config) -> Iterator[Problem]:
    short, threshold = config.verify.short_threshold, config.similarity.threshold
    if short is not None and short < threshold:
        yield Problem(
            "verify.short_threshold",
            f"{short:g} is below similarity.threshold, {threshold:g}: short texts would count "
            "as similar sooner than long ones, and the bands would not find them",
            f"use {threshold:g} to 1, or null",
        )


CHECKS: tuple[tuple[tuple[str, ...], Check], ...] = (
    (("similarity.threshold", "similarity.slots", "similarity.recall", "similarity.bands",
      "similarity.rows", "similarity.layout", "similarity.shingle", "verify"), _shape),
    (("similarity.shingle.kind", "similarity.shingle.languages"), _languages),
    (("verify", "similarity.slots"), _sketch_rule),
    (("verify.short_threshold", "similarity.threshold"), _short_threshold),
)  # fmt: skip
