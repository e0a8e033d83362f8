"""Ten verdicts that a reader of the law predicts by hand. All documents here share every key."""

from streamfilter.matching.law import Arrival, Bounds, Law, Settings

BANDS = 16


def document(doc_id: str, shingles: range, text: str = "") -> Arrival:
    """Return a document of these *shingles*, whose signature leaves hope to every pair."""
    keys = (*range(BANDS), hash(text or doc_id) % 2**64)
    fingerprint = (text or doc_id).encode()
    return Arrival(doc_id, fingerprint, bytes(128), tuple(shingles), len(shingles), keys)


def test_ten_verdicts():
    law = Law()
    assert law.judge(document("a", range(9))).verdict == "unique"
    near = law.judge(document("b", range(10)))
    assert (near.verdict, near.matches) == ("near_duplicate", [("a", 0.9, BANDS)])
    # 10 of 12 are shared with b, but b is not remembered; with a only 9 of 12 are.
    assert law.judge(document("c", range(12))).verdict == "unique"
    same = law.judge(document("d", range(9), text="a"))
    assert (same.verdict, same.matches) == ("exact_duplicate", [("a", 1.0, 0)])
    both = law.judge(document("e", range(11)))  # 9 of 11 with a, 11 of 12 with c: the best first
    assert [name for name, _, _ in both.matches] == ["c", "a"]
    law.forget_id("a")
    assert law.judge(document("f", range(9))).verdict == "unique"  # a is forgotten


def test_verdicts_of_other_settings():
    few = Law(Settings(max_candidates=1))
    few.judge(document("a", range(9)))
    few.judge(document("c", range(12)))
    assert few.judge(document("e", range(11))).truncated  # a was compared (.82), c was not
    contained = Law(Settings(containment=0.9))
    contained.judge(document("a", range(100)))
    assert contained.judge(document("b", range(10))).verdict == "near_duplicate"  # all of b is in a
    latest = Law()
    for number in range(3):
        latest.arrive(0, Bounds(documents=2))
        latest.judge(document(f"{number}", range(20 * number, 20 * number + 20)))
    latest.arrive(0, Bounds(documents=2))
    assert latest.judge(document("3", range(20))).verdict == "unique"  # the latest two are 1 and 2
