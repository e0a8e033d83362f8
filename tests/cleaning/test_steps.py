"""What each step of cleaning removes, what it leaves, and what a hostile text costs."""

import sys
import unicodedata

import pytest

from streamfilter.cleaning.folds import FOLDS
from streamfilter.cleaning.masks import MASKS, REPLACEMENT_MAX
from streamfilter.config.loading import load_config
from streamfilter.similarity.scheme import Normalisation, Scheme, scheme_of
from streamfilter.similarity.text.normalisation import Normaliser
from streamfilter.stops import ConfigError, MissingExtra
from tests.support.cases import cases

ALL_MASKS = tuple(MASKS)


def cleaned(text: str, **how: object) -> str:
    return Normaliser(Normalisation(**how))(text).decode()  # type: ignore[arg-type]


@cases(
    ("page", "text"),
    [
        ("<p>One</p><p>two <b>th</b>ree<br>four</p>", "one two three four"),
        ("caf&eacute; &amp; bar &#8211; 5 &lt; 7", "café & bar – 5 < 7"),
        ("<script>var a = '<p>';</script><style>p {}</style>seen<!-- not --> this", "seen this"),
        ("<html><head><title>Site</title></head><body>story</body></html>", "story"),
        ("a < b and c <3 d & e", "a < b and c <3 d & e"),
        ("plain, without any markup", "plain, without any markup"),
        ("<td>cell<td>cell<li>item", "cell cell item"),
        ("<p>cut in a tag <a href='x", "cut in a tag"),
        ("<p>half \ud83d an emoji", "half \ufffd an emoji"),
    ],
)
def test_html_is_what_a_browser_shows(page: str, text: str) -> None:
    assert cleaned(page, html=True) == text


def test_a_page_and_its_text_have_the_same_tokens() -> None:
    page = "<div class='x'><h1>Crane</h1><p>The old crane &ldquo;Emma&rdquo; is sold.</p></div>"
    assert cleaned(page, html=True) == cleaned("Crane The old crane “Emma” is sold.")


def test_html_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml.etree", None)
    with pytest.raises(MissingExtra, match=r"pip install 'streamfilter\[html\]'"):
        Normalisation(html=True).cleaner()


def test_a_pattern_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'streamfilter\[patterns\]'"):
        Normalisation(mask=(("a+", "b"),)).cleaner()


def test_terminal_colours_do_not_count() -> None:
    coloured = "\x1b[1;31mERROR\x1b[0m disk \x1b]8;;http://a\x07full\x1b]8;;\x07\x1b"
    assert cleaned(coloured, ansi=True) == "error disk full"
    assert cleaned("\x1b]disk 1 is full", ansi=True) == "disk 1 is full"


@cases(
    "introduction",
    [
        "On Tue, 3 Mar 2026 at 9:14, Ann <ann@example.org> wrote:",
        "On Tue, 3 Mar 2026 at 9:14 Ann Lee\n<ann@example.org> wrote:",
        "Am 03.03.2026 um 09:14 schrieb Ann Lee:",
        "Le mar. 3 mars 2026 à 09:14, Ann Lee a écrit :",
        "Ann Lee wrote:\n",
    ],
)
def test_a_mail_is_what_its_author_wrote(introduction: str) -> None:
    mail = f"Friday is fine.\n\n{introduction}\n> Shall we meet\n>> as always\n> on Friday?\n\nAnn"
    assert cleaned(mail, quotes=True) == "friday is fine. ann"


def test_a_sentence_before_a_quotation_stays() -> None:
    mail = "My answer to your second question:\n> why?\nBecause."
    assert cleaned(mail, quotes=True) == "my answer to your second question: because."


def test_all_below_an_original_message_is_quoted() -> None:
    mail = "No.\n-----Original Message-----\nFrom: Ann\nSubject: Friday?\n\nShall we meet?"
    assert cleaned(mail, quotes=True) == "no."


def test_words_are_joined_where_a_line_ends() -> None:
    column = "The har-\nbour of Baden-\r\nWürttemberg was de\u2010\n  layed - again -\nand"
    expected = "the harbour of baden- württemberg was delayed - again - and"
    assert cleaned(column, hyphens=True) == expected


@cases(
    ("mask", "text", "expected"),
    [
        ("url", "see https://a.org/x?y=1#z, or www.b.org", "see url or url"),
        ("tracking", "https://a.org/x?utm_source=n&id=7#top", "https://a.org/x?id=7#top"),
        ("tracking", "https://a.org/x?fbclid=1&gclid=2", "https://a.org/x"),
        ("tracking", "https://a.org/x?identity=1", "https://a.org/x?identity=1"),
        ("email", "to ann.lee+x@mail.example.org.", "to email."),
        ("email", "of lodash@4.17.21 and node@v18.2", "of lodash@4.17.21 and node@v18.2"),
        ("uuid", "id F17FD374-c6a5-3877-7733-0bdbd7210dff", "id uuid"),
        ("timestamp", "2026-03-20T08:47:22.83Z up", "timestamp up"),
        ("timestamp", "Mar  3 09:14:22 host; 3 March 2026", "timestamp host; timestamp"),
        ("timestamp", "20.03.2026 at 10:30 pm, Mayor 7", "timestamp at timestamp, mayor 7"),
        ("ip", "10.0.0.1:8080, fe80::1%eth0 and ::1", "ip, ip and ip"),
        ("ip", "at 12:30:45 of v1.2.3: no", "at 12:30:45 of v1.2.3: no"),
        ("ip", "dead::beef, ::face and 10::beef", "dead::beef, ::face and ip"),
        ("tracking", "https://a.org/x?utm_source=x&amp;id=7", "https://a.org/x?id=7"),
        ("tracking", "https://a.org/x?a=1&amp;fbclid=2&amp;b=3", "https://a.org/x?a=1&amp;b=3"),
        (
            "path",
            "on /r/python/comments and /u/ann/posts, /3/4",
            "on /r/python/comments and /u/ann/posts, /3/4",
        ),
        ("path", "in /usr/lib/x.py or C:\\a\\b, and/or", "in path or path, and/or"),
        ("hex", "at 0x12cc11d357 trace 377b9aa2bb2edb20", "at hex trace hex"),
        ("hex", "the facade was defaced in 20260301", "the facade was defaced in 20260301"),
        ("number", "1,234.56 and 1 000 of user:4711", "0 and 0 0 of user:0"),
    ],
)
def test_a_mask_takes_what_it_names_and_no_more(mask: str, text: str, expected: str) -> None:
    assert cleaned(text, mask=(mask,)) == expected


def test_masks_run_in_one_order_whatever_the_settings_say() -> None:
    line = "2026-03-20 08:47:22 10.0.0.1 took 5 ms"
    for masks in (ALL_MASKS, ALL_MASKS[::-1]):
        assert cleaned(line, mask=masks) == "timestamp ip took 0 ms"


def test_a_pattern_of_the_user_runs_after_ours() -> None:
    how = ("number", (r"(?s)about example works.*", ""), (r"order-0", "order"))
    assert cleaned("order-77 is late. about example works\nfounded", mask=how) == "order is late."


@cases(
    ("pattern", "wrong"),
    [
        ("(", "is no pattern"),
        (r"(a)\1", "is no pattern"),
        ("x*", "matches an empty text"),
        (r"\b", "matches an empty text at some place"),
        (r"a|\B", "matches an empty text at some place"),
        ("(?m)^", "matches an empty text at some place"),
        (r"\s*$", "matches an empty text at some place"),
        ("(?s).+", "matches a whole text"),
        ("a" * 1_001, "at most 1000"),
    ],
)
def test_a_pattern_that_cannot_be_right_is_refused(pattern: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Normalisation(mask=((pattern, ""),)).cleaner()


@cases(
    ("fold", "one", "other"),
    [
        ("marks", "Łódź café ế Ångström ά ϊ", "lodz cafe e angstrom α ι"),
        ("marks", "за\u0301мок ёлка", "замок елка"),
        ("marks", "قَالَتْ שָׁלוֹם", "قالت שלום"),
        ("marks", "x\u0304 e\u0301", "x e"),
        ("arabic", "إن أن آن رحمــة على", "ان ان ان رحمه علي"),
        ("apostrophes", "п'ять пʼять п’ять", "п'ять п'ять п'ять"),
        ("digits", "٣٤ ४५ 12", "34 45 12"),
        ("turkish", "İstanbul Iğdır ısı", "istanbul iğdir isi"),
    ],
)
def test_a_fold_makes_several_letters_one(fold: str, one: str, other: str) -> None:
    assert cleaned(one, fold=(fold,)) == other
    assert cleaned(one, fold=(fold,)) != cleaned(one)


@pytest.mark.parametrize("folds", ["[nope]", "[[marks]]", "[{marks: 1}]", "[null]"])
def test_a_fold_that_there_is_not_is_refused(folds: str) -> None:
    with pytest.raises(ConfigError, match="expected a list of marks, arabic"):
        load_config(overrides=[f"similarity.normalise.fold={folds}"])


def test_ascii_is_folded_as_beside_other_letters() -> None:
    ascii_ = "".join(map(chr, range(32, 127)))
    for fold in FOLDS:
        assert cleaned(f"é {ascii_}", fold=(fold,)).endswith(cleaned(ascii_, fold=(fold,)))


def test_marks_of_other_scripts_are_letters() -> None:
    for text in ("शेर का शोर", "й ї", "บ้าน", "がぎ"):
        assert cleaned(text, fold=("marks",)) == cleaned(text)


@pytest.mark.slow
def test_a_folded_text_needs_no_second_fold() -> None:
    how = {"fold": ("marks", "arabic", "apostrophes", "digits", "turkish")}
    for first in range(0, 0x20000, 64):
        text = " ".join(chr(p) for p in range(first, first + 64) if not 0xD800 <= p < 0xE000)
        once = cleaned(text, **how)
        assert cleaned(once, **how) == once, hex(first)
        assert not [
            c for c in once if unicodedata.category(c) == "Mn" and ord(c) in range(0x300, 0x370)
        ]


def test_older_indexes_keep_their_fingerprint() -> None:
    assert not {"html", "ansi", "quotes", "hyphens", "mask", "fold"} & set(
        Normalisation().as_fields()
    )
    assert Scheme(20, 5).fingerprint == "dc26e5f2"


def test_the_scheme_of_an_index_is_read_back() -> None:
    how = Normalisation(html=True, mask=("url", ("a+", "b")), fold=("marks",))
    scheme = Scheme(20, 5, normalisation=how)
    assert scheme_of(scheme.as_json()) == scheme
    assert scheme.fingerprint != Scheme(20, 5).fingerprint


HOSTILE = (
    *("a", "@", "a@", "a.", "1:", "1.", "f0", "/", "/a", "~/", "http://", "www.", "-", "0-", "é"),
    *("\x1b[", "\x1b]", "> ", ">\n", "wrote:\n> ", "a-\n", "\t>", "jan 1 ", "2026-", "::", "0x"),
    *("<a ", "<b>", "<b>x</i>", "<div></p>", "<!--", "&", "&#x", "<![CDATA[", "</", " ", "\n"),
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE, ids=ascii)
def test_a_hostile_text_is_cleaned_in_linear_time(piece: str) -> None:
    """A step that goes back over the text would take minutes here, and memory without end."""
    masks = (*ALL_MASKS, (r"(a+)+b", "c" * REPLACEMENT_MAX))
    how = Normalisation(html=True, ansi=True, quotes=True, hyphens=True, mask=masks)
    text = piece * (500_000 // len(piece))
    assert len(how.cleaner()(text)) <= REPLACEMENT_MAX * len(text)
