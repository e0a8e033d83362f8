"""Every scheme and policy from a configuration; every impossible one refused, all in one run."""

import json

from streamfilter.assembly import note_policy, note_texts, policy_for, reader_for, texts_of
from streamfilter.config.checks import announced
from streamfilter.config.loading import load_config, read_config
from streamfilter.documents.fields.selecting import Limits
from streamfilter.index.format import BUCKET_CAP
from streamfilter.index.rocks.options import Memory
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.statistics.shape import Shape
from tests.support.cases import cases


def problems_of(*settings):
    return [str(problem) for problem in read_config((), {}, settings).problems]


def scheme_of(*settings):
    return load_config((), {}, [f"similarity.{setting}" for setting in settings]).scheme()


@cases(
    ("settings", "scheme"),
    [
        ((), Scheme(16, 6)),
        (("shingle.kind=char", "shingle.size=5"), Scheme(16, 6, shingling=Shingling("char", 5))),
        (("shingle.kind=stopword",), Scheme(16, 6, shingling=Shingling("stopword", 2))),
        (
            ("shingle.kind=stopword", "shingle.size=3", "shingle.languages=[de, fr]",
             "shingle.fallback_below=9"),
            Scheme(16, 6, shingling=Shingling("stopword", 3, languages=("de", "fr"),
                                              fallback_below=9)),
        ),
        (
            ("shingle.token_bytes=4", "shingle.sample_modulus=16"),
            Scheme(16, 6, shingling=Shingling(token_bytes=4, sample_modulus=16)),
        ),
        (("layout=random", "bands=125", "rows=3"), Scheme(125, 3, layout="random")),
        (("layout=random",), Scheme(28, 7, layout="random")),
        (("slots=256", "recall=0.9", "threshold=0.5"), Scheme(36, 4, slots=256)),
        (("bands=14", "rows=8", "recall=0.9"), Scheme(14, 8)),
    ],
)  # fmt: skip
def test_a_scheme_is_what_the_settings_say(settings, scheme):
    assert scheme_of(*settings) == scheme


def test_a_policy_is_what_the_settings_say():
    settings = ["similarity.threshold=0.7", "verify.containment=0.9", "verify.contained=arriving",
                "verify.short_threshold=0.95", "verify.short_size=50", "verify.max_candidates=3",
                "similarity.shingle.sample_modulus=4", "input.short_text=drop"]  # fmt: skip
    assert policy_for(load_config((), {}, settings)) == MatchPolicy(
        threshold=0.7, containment=0.9, contained="arriving", short_threshold=0.95, short_size=50,
        max_candidates=3, sample_modulus=4, short_text="drop",
    )  # fmt: skip
    sketch = ["verify.method=sketch", "verify.agree=60", "verify.of=64"]
    assert policy_for(load_config((), {}, sketch)) == MatchPolicy(method="sketch", agree=60, of=64)
    assert policy_for(load_config((), {})) == MatchPolicy()


def test_what_no_one_sets_is_what_the_core_takes_by_itself():
    config = load_config((), {})
    assert reader_for(config).limits == Limits()
    assert config.index.bucket_cap == BUCKET_CAP
    memory = config.memory
    assert Memory(memory.index_cache, memory.memtable, memory.miss_filter) == Memory()


@cases(
    ("settings", "problem"),
    [
        (("similarity.shingle.kind=words",), "expected 'word', 'char' or 'stopword'"),
        (("similarity.layout=stripes",), "expected 'bands' or 'random'"),
        (("similarity.shingle.token_bytes=5",), "got 5; expected 4 or 8"),
        (("similarity.shingle.sample_modulus=0",), "greater than or equal to 1"),
        (("similarity.threshold=0",), "greater than 0"),
        (("similarity.threshold=1.01",), "less than or equal to 1"),
        (("verify.containment=0",), "greater than 0"),
        (("verify.short_threshold=1.5",), "less than or equal to 1"),
        (("verify.method=guess",), "expected 'exact', 'signature' or 'sketch'"),
        (
            ("similarity.shingle.kind=stopword", "similarity.shingle.languages=[en, zh]"),
            "no stop words for zh; there are lists for da, de, en",
        ),
        (("similarity.bands=9", "similarity.rows=13"), "9 x 13 finds only .398 of the pairs"),
        (("similarity.bands=20", "similarity.rows=8"), "but similarity.slots is 128"),
        (("similarity.layout=random", "similarity.bands=9"), "need both"),
        (
            ("similarity.layout=random", "similarity.bands=9", "similarity.rows=129"),
            "129 is more than similarity.slots",
        ),
        (
            ("similarity.layout=random", "similarity.bands=7", "similarity.rows=2",
             "similarity.slots=4"),
            "only 6 ways to choose 2 of 4 slots",
        ),
        (
            ("similarity.layout=random", "similarity.bands=9", "similarity.rows=9"),
            "9 x 9 random finds only",
        ),
        (("similarity.layout=random", "similarity.threshold=0.01"), "cannot be found"),
        (("verify.method=sketch", "verify.agree=101"), "101 of 100 slots cannot agree"),
        (("verify.method=sketch", "similarity.slots=64"), "100 slots, but similarity.slots is 64"),
        (("verify.method=sketch", "verify.containment=0.9"), "knows no sizes"),
        (("verify.short_threshold=0.5",), "below similarity.threshold"),
        (
            ("verify.containment=0.9", "similarity.bands=16", "similarity.rows=6"),
            "16 x 6 finds only .402 of the texts contained in one of 1.5 times their size",
        ),
        (("verify.containment=0.1", "similarity.slots=64"), "raise similarity.slots, or lower"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_problem_with_its_cure(settings, problem):
    told = problems_of(*settings)
    assert len(told) == 1, told
    assert problem in told[0]
    assert "\n    cure: " in told[0]


def test_a_cure_that_is_followed_cures():
    for settings in (("similarity.bands=9", "similarity.rows=13", "similarity.recall=0.398"),
                     ("similarity.slots=2", "similarity.recall=0.9"),
                     ("verify.containment=0.9", "similarity.bands=32", "similarity.rows=4"),
                     ("verify.containment=0.9", "similarity.rows=6",
                      "verify.containment_recall=0.1"),
                     ("similarity.layout=random", "similarity.bands=28",
                      "similarity.rows=7")):  # fmt: skip
        assert problems_of(*settings) == []


def test_contained_texts_have_bands_of_their_own_where_none_are_given():
    contained = load_config((), {}, ("verify.containment=0.9",)).scheme()
    assert Shape.of(contained).contained(0.9, 1.5) >= 0.95
    assert Shape.of(contained) == Shape(32, 4)
    assert Shape.of(load_config((), {}).scheme()) == Shape(16, 6)


def test_all_that_is_wrong_is_said_in_one_run():
    told = problems_of(
        "similarity.threshold=2", "similarity.shingle.kind=ngram", "similarity.slots=0",
        "verify.containment=7", "verify.method=sketch", "verify.agree=101", "input.format=xml",
    )  # fmt: skip
    assert [line.split(":")[0] for line in told] == [
        "input.format", "similarity.threshold", "similarity.shingle.kind", "similarity.slots",
        "verify.containment",
    ]  # fmt: skip
    assert len(problems_of("verify.method=sketch", "verify.agree=101", "verify.of=50",
                           "similarity.slots=32", "similarity.bands=9",
                           "similarity.rows=9")) == 3  # fmt: skip


class Facts(dict[str, bytes]):
    """What an index remembers of itself."""

    fact = dict.get
    remember = dict.__setitem__


def test_a_policy_from_before_a_setting_existed_had_its_default():
    index = Facts()
    shape = Shape(16, 6)
    assert note_policy(index, MatchPolicy(), shape) == []
    old = {"threshold": 0.8, "method": "exact", "max_candidates": 8, "short_text": "forward"}
    index.remember("policy", json.dumps(old).encode())
    assert note_policy(index, MatchPolicy(), shape) == []
    contained = MatchPolicy(containment=0.9)
    assert note_policy(index, contained, shape) == ["containment: None -> 0.9"]
    assert note_policy(index, contained, shape) == []


def test_a_setting_that_older_indexes_do_not_store_is_left_out_where_it_is_off():
    index, shape = Facts(), Shape(16, 6)
    note_policy(index, MatchPolicy(), shape)
    later = {"known_id", "weights", "minimum_fields", "agree_on"}
    assert not later & json.loads(index["policy"]).keys()
    on = MatchPolicy(known_id="update", agree_on=("numbers",))
    assert note_policy(index, on, shape) == [
        "known_id: judge -> update",
        "agree_on: [] -> ['numbers']",
    ]
    assert note_policy(index, on, shape) == []
    assert note_policy(index, MatchPolicy(), shape) == [
        "known_id: update -> judge",
        "agree_on: ['numbers'] -> []",
    ]
    assert not later & json.loads(index["policy"]).keys()


def test_texts_from_elsewhere_are_a_warning_and_belong_to_a_service(caplog):
    """Titles were compared with bodies, without a word."""
    index = Facts()
    for settings in ((), ("input.text=/body",), ("input.text=/body",), ("input.format=text",)):
        note_texts(index, texts_of(load_config((), {}, settings)))
    assert [each.split(":")[0] for each in caplog.messages] == [
        "the index was filled with the texts at /text, and input.text is /body now",
        "the index was filled with the texts at /body, and input.text is value now",
    ]
    note_texts(index, "")
    assert index["texts"] == b"value"


def test_short_texts_are_judged_by_default_where_empty_ones_are():
    def short(*settings):
        return load_config((), {}, settings).input.short_text

    assert (short(), short("input.empty_text=exact_only")) == ("forward", "exact_only")
    assert short("input.empty_text=exact_only", "input.short_text=forward") == "forward"


def test_a_setting_that_will_go_is_announced_with_what_to_do():
    assert announced(load_config((), {})) == []
    (warning,) = announced(load_config((), {}, ("similarity.shingle.sample_modulus=4",)))
    assert warning.warning
    assert "will go" in str(warning)
    assert "leave it out" in str(warning)
