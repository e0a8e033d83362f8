import pytest

from streamfilter.model import SEEDS_FROM, Source, Verdict
from streamfilter.quality.judge import evaluate
from streamfilter.quality.report import Report
from streamfilter.quality.run import Given, Placed, Run, Truth
from tests.support.values import replace

TRUTH = Truth([("a", "b", 0.9), ("a", "c", 0.8), ("b", "c", 0.95), ("d", "e", 0.6)])


def given(*ids: str | None, text: dict[str, str] | None = None) -> list[Given]:
    return [
        Given(
            Source("in", 0, number),
            (number,),
            f"raw {number}".encode(),
            id_,
            (text or {}).get(id_ or "", id_ or "").encode(),
        )
        for number, id_ in enumerate(ids, 1)
    ]


def kept(number: int) -> Placed:
    return Placed("unique", Verdict.UNIQUE, f"raw {number}".encode())


def withheld(number: int, match_id: str, *matches: int, topic: str = "in") -> Placed:
    return Placed(
        "duplicates",
        Verdict.NEAR_DUPLICATE,
        f"raw {number}".encode(),
        Source(topic, 0, number),
        match_id,
        0.9,
        tuple(Source(topic, 0, match) for match in matches),
    )


def judged(went_in: list[Given], *came_out: Placed, truth: Truth = TRUTH) -> Report:
    return evaluate(Run(went_in, came_out), truth, recall_from=0.84, precision_from=0.76)


def test_a_right_run_is_found_right() -> None:
    report = judged(
        given("a", "b", "c", "d", "e"),
        kept(1), withheld(2, "a", 1), withheld(3, "a", 1), kept(4), kept(5),
    )  # fmt: skip
    assert report.sound
    assert (report.recall, report.precision) == (1.0, 1.0)
    assert (report.recalled.of, report.precise.of) == ({0: 1}, {0: 2}), (
        "c's best kept one is a, at .8"
    )
    assert report.buckets == {9: [1, 1], 8: [1, 1], 6: [1, 0]}
    assert report.verdicts == {"unique": 3, "near_duplicate": 2}
    assert report.examples == []


def test_a_document_is_expected_only_for_an_earlier_one_that_was_kept() -> None:
    report = judged(given("a", "b", "c"), kept(1), withheld(2, "a", 1), kept(3))
    assert report.recalled.counts == (1, 1), "b is like c, but was withheld"
    report = judged(given("b", "a", "c"), kept(1), kept(2), kept(3))
    assert report.recalled.counts == (0, 2)
    assert [(each.id, each.other) for each in report.examples] == [("a", "b"), ("c", "b")]


def test_a_withheld_document_is_wrong_for_a_match_that_is_not_like_it() -> None:
    report = judged(given("d", "e", "x"), kept(1), withheld(2, "d", 1), withheld(3, "d", 1))
    assert (report.precise.counts, report.precision) == ((0, 2), 0.0)
    assert [(each.kind, each.similarity) for each in report.examples] == [
        ("wrong", 0.6), ("wrong", None),
    ]  # fmt: skip


def test_equal_texts_are_right_though_the_truth_does_not_list_them() -> None:
    went_in = given("x", "y", text={"x": "same", "y": "same"})
    assert judged(went_in, kept(1), withheld(2, "x", 1)).precision == 1.0


@pytest.mark.parametrize(
    ("match", "field"), [(2, "self_matches"), (3, "later_matches"), (1, "unkept_matches")]
)
def test_impossible_matches_are_counted(match: int, field: str) -> None:
    went_in = given("a", "b", "c", "z")
    came_out = [withheld(1, "z", 4), withheld(2, "abc"[match - 1], match), kept(3), kept(4)]
    report = judged(went_in, *came_out)
    assert getattr(report, field) == (2 if field == "later_matches" else 1)
    assert not report.sound


def test_a_seeded_match_is_sound_and_right_only_by_a_truth_that_has_it() -> None:
    for match_id, precise, seeded in (("old", 0, 1), ("a", 1, 0), ("e", 0, 0)):
        seed = (Source("archive", SEEDS_FROM, 1),)
        placed = replace(withheld(1, match_id), match_sources=seed)
        report = judged(given("b", "a"), placed, kept(2))
        assert (report.sound, report.seeded) == (True, seeded)
        assert sum(report.precise.good.values()) == precise
        assert sum(report.precise.of.values()) == 1 - seeded


def test_evidence_without_a_match_is_no_evidence() -> None:
    assert judged(given("a", "b"), kept(1), withheld(2, "")).unkept_matches == 1


def test_lost_records_are_missing_and_doubled_ones_are_too_many() -> None:
    report = judged(given("a", "b", None), kept(1), kept(1), kept(7))
    assert (report.missing, report.extra) == (2, 2)
    assert not report.sound


def test_a_record_in_two_places_is_not_conserved() -> None:
    report = judged(given("a", "b"), kept(1), kept(2), withheld(2, "a", 1))
    assert (report.missing, report.extra) == (0, 1)


def test_a_record_that_policy_drops_is_not_missing() -> None:
    dropped = Given(Source("in", 0, 1), (1,), b"raw", None, b"", droppable=True)
    report = judged([dropped])
    assert report.sound
    assert report.verdicts == {"dropped": 1}


def test_equal_lines_are_distinguished_by_their_number() -> None:
    went_in = [
        Given(Source("in", 0, number), (number,), b"same raw", "a", b"same") for number in (1, 2, 3)
    ]
    first = Placed("unique", Verdict.UNIQUE, b"same raw")
    later = [
        Placed(
            "duplicates",
            Verdict.EXACT_DUPLICATE,
            b"same raw",
            Source("in", 0, number),
            "a",
            1.0,
            (Source("in", 0, 1),),
        )
        for number in (2, 3)
    ]
    report = judged(went_in, *later, first)
    assert report.sound
    assert report.precision == 1.0
    assert report.ambiguous == 3
    assert report.recalled.counts == (0, 0)


def test_outputs_that_call_their_input_by_another_name_are_matched_by_their_bytes() -> None:
    report = judged(given("a", "b"), kept(1), withheld(2, "a", 1, topic="elsewhere"))
    assert report.sound
    assert (report.recall, report.precision) == (1.0, 1.0)


def test_references_are_matched_by_their_source_alone() -> None:
    reference = Placed("duplicates", Verdict.NEAR_DUPLICATE, None, Source("in", 0, 2), "a", 0.9,
                       (Source("in", 0, 1),))  # fmt: skip
    assert judged(given("a", "b"), kept(1), reference).sound


def test_the_order_is_that_of_judgement_not_of_offsets() -> None:
    first = Given(Source("t", 1, 50), (0, 1, 50), b"raw 1", "a", b"a")
    second = Given(Source("t", 0, 3), (1, 0, 3), b"raw 2", "b", b"b")
    evidence = Placed("duplicates", Verdict.NEAR_DUPLICATE, b"raw 2", second.source, "a", 0.9,
                      (first.source,))  # fmt: skip
    report = judged([first, second], kept(1), evidence)
    assert report.sound
    assert report.recall == 1.0


def test_ids_of_the_truth_that_were_not_given_are_counted() -> None:
    assert judged(given("a", "b"), kept(1), withheld(2, "a", 1)).unknown == 3


def test_a_share_of_nothing_is_no_share() -> None:
    report = judged(given("x"), kept(1))
    assert (report.recall, report.precision) == (None, None)


def test_dead_letters_are_neither_missed_nor_wrong() -> None:
    dead = Placed("dead_letter", Verdict.REJECTED, b"raw 2", Source("in", 0, 2))
    report = judged(given("a", None), kept(1), dead)
    assert report.sound
    assert report.recalled.counts == report.precise.counts == (0, 0)


def test_a_family_that_was_found_together_is_worth_one_trial() -> None:
    """Of 40 copies of one text that were all found nothing is known of the next text."""
    ids = [f"d{number}" for number in range(41)]
    pairs = [(one, "d0", 0.9) for one in ids[1:]]
    found = [withheld(number, "d0", 1) for number in range(2, 42)]
    report = judged(given(*ids), kept(1), *found, truth=Truth(pairs))
    assert report.recalled.counts == (40, 40)
    share = report.recalled.share
    assert share is not None
    assert (share.value, share.upper) == (1.0, 1.0)
    assert share.lower < 0.2
    alone = Truth([(ids[number], ids[number + 1], 0.9) for number in range(0, 40, 2)])
    outcomes = [withheld(n, ids[n - 2], n - 1) if n % 2 == 0 else kept(n) for n in range(1, 42)]
    apart = judged(given(*ids), *outcomes, truth=alone).recalled
    assert apart.counts == (20, 20)
    assert apart.share is not None
    assert 0.75 < apart.share.lower < 0.9


def test_equal_texts_are_of_one_family_whatever_the_truth_lists() -> None:
    report = judged(
        given("x", "y", "z", text={"x": "t", "y": "t", "z": "t"}),
        kept(1), withheld(2, "x", 1), withheld(3, "x", 1),
    )  # fmt: skip
    assert report.precise.of == {0: 2}
