"""People as several systems know them: a labelled stream with the errors of real registers.

Two habits write records: English names and American formats, and German and French ones. Errors
are typos, nicknames, exchanged first and last names, moves, other formats and missing fields.
Households share an address, a phone and a family name. Namesakes have one name and two births.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from tests.entities.names import ENGLISH, GERMAN, Names, words

Person = dict[str, str]


@dataclass(frozen=True, slots=True)
class Habit:
    """How a country's registers write."""

    names: Names
    address: Callable[[random.Random, Names], tuple[str, str]]
    """Street with number; code with city."""
    phone: Callable[[random.Random], str]
    """A national number, digits only."""
    addresses: tuple[Callable[[str, str], str], ...]
    phones: tuple[Callable[[str], str], ...]
    dates: tuple[str, ...]


def _american(rng: random.Random, names: Names) -> tuple[str, str]:
    kind = rng.choice(["Street", "Avenue", "Road", "Lane", "Drive", "Court"])
    code, city = rng.choice(_CODES)
    street = f"{rng.randint(1, 2_400)} {rng.choice(names.streets)} {kind}"
    if rng.random() < 0.15:
        street += f" Apt {rng.randint(1, 40)}"
    return street, f"{city} {code}"


_CITIES = words(
    "Springfield Franklin Clinton Greenville Bristol Fairview Salem Madison Georgetown Arlington "
    "Ashland Dover Oxford Jackson Burlington Manchester Milton Newport Auburn Centerville"
)
_CODES = [(f"{i * 137 % 90_000 + 10_000}", city) for i, city in enumerate(_CITIES * 6)]
_EURO_CITIES = words(
    "Berlin Hamburg München Köln Leipzig Bremen Nürnberg Münster Lyon Nantes Lille Toulouse Genève "
    "Zürich Linz Graz Düsseldorf Göttingen Besançon Orléans"
)
_EURO_CODES = [(f"{i * 977 % 90_000 + 10_000}", city) for i, city in enumerate(_EURO_CITIES * 4)]


def _german(rng: random.Random, names: Names) -> tuple[str, str]:
    code, city = rng.choice(_EURO_CODES)
    street = (
        f"{rng.choice(names.streets)}{rng.choice(['straße', 'straße', 'weg', 'platz', 'gasse'])}"
    )
    return f"{street} {rng.randint(1, 180)}{rng.choice(['', '', '', 'a', 'b'])}", f"{code} {city}"


AMERICAN = Habit(
    ENGLISH, _american,
    lambda rng: f"{rng.randint(201, 989)}{rng.randint(200, 999)}{rng.randint(0, 9_999):04}",
    (
        lambda s, c: f"{s}, {c}",
        lambda s, c: f"{s.replace('Street', 'St').replace('Avenue', 'Ave')}, {c}",
        lambda s, c: f"{s.replace('Road', 'Rd.').replace('Lane', 'Ln')} {c}".upper(),
        lambda s, c: s.replace("Drive", "Dr").replace("Court", "Ct."),
    ),
    (
        lambda n: f"({n[:3]}) {n[3:6]}-{n[6:]}", lambda n: f"+1 {n[:3]} {n[3:6]} {n[6:]}",
        lambda n: f"{n[:3]}.{n[3:6]}.{n[6:]}", lambda n: n, lambda n: f"1-{n[:3]}-{n[3:6]}-{n[6:]}",
    ),
    ("%Y-%m-%d", "%m/%d/%Y", "%b %d, %Y", "%d %B %Y", "%Y%m%d"),
)  # fmt: skip
EUROPEAN = Habit(
    GERMAN, _german,
    lambda rng: f"{rng.choice(['30', '40', '89', '221', '341', '151', '172', '176'])}"
                f"{rng.randint(10**6, 10**8 - 1)}",
    (
        lambda s, c: f"{s}, {c}",
        lambda s, c: f"{s.replace('straße', 'str.')} {c}",
        lambda s, c: f"{s.replace('straße', 'strasse').replace('platz', 'pl.')}, {c}",
        lambda s, c: f"{c}, {s}",
    ),
    (
        lambda n: f"0{n[:3]}/{n[3:]}", lambda n: f"+49 {n[:2]} {n[2:]}", lambda n: f"0049{n}",
        lambda n: f"+49 (0){n[:3]} {n[3:]}", lambda n: f"0{n}",
    ),
    ("%d.%m.%Y", "%Y-%m-%d", "%d.%m.%y", "%d/%m/%Y", "%d-%m-%Y"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """Records in the order of arrival, and the entity of each."""

    records: list[dict[str, str]]
    entity: dict[str, int]


def register(seed: int, count: int, habit: Habit = AMERICAN, *, errors: float = 2.0) -> Register:
    """Return about *count* records: two of five people come again, once to three times.

    A record that comes again has *errors* errors on average; a tenth have none.
    """
    rng = random.Random(seed)
    people: list[Person] = []
    while len(people) < count * 0.55:
        people += _household(rng, habit, people)
    written: list[tuple[int, dict[str, str]]] = []
    for number, person in enumerate(people):
        written.append((number, _written(rng, habit, person, missing=0.05)))
        times = rng.choice([0, 0, 0, 1, 1, 2, 3])
        for _ in range(times):
            again = person if rng.random() < 0.1 else _changed(rng, habit, person, errors)
            written.append((number, _written(rng, habit, again, missing=0.1)))
    rng.shuffle(written)
    records = [{"id": f"r{i}", **record} for i, (_, record) in enumerate(written)]
    return Register(records, {f"r{i}": number for i, (number, _) in enumerate(written)})


def _household(rng: random.Random, habit: Habit, people: list[Person]) -> list[Person]:
    street, city = habit.address(rng, habit.names)
    last, phone = rng.choice(habit.names.last), habit.phone(rng)
    size = rng.choice([1, 1, 1, 2, 2, 3])
    firsts = rng.sample(habit.names.first, size)
    found = []
    for first in firsts:
        born = date(1935, 1, 1) + timedelta(days=rng.randrange(27_000))
        if people and rng.random() < 0.02:  # a namesake, elsewhere, with another birth
            first, last = rng.choice(people)["first"], rng.choice(people)["last"]
        local = f"{first.lower()}.{last.lower()}{rng.choice(['', '', str(born.year % 100)])}"
        found.append({
            "first": first, "last": last, "street": street, "city": city,
            "phone": phone if size > 1 or rng.random() < 0.9 else habit.phone(rng),
            "email": f"{local}@{rng.choice(habit.names.domains)}", "born": born.isoformat(),
        })  # fmt: skip
    return found


def _changed(rng: random.Random, habit: Habit, person: Person, errors: float) -> Person:
    person = dict(person)
    count = max(1, min(4, round(rng.gauss(errors, 0.9))))
    for error in rng.sample(list(ERRORS), count):
        ERRORS[error](rng, habit, person)
    return person


def _typo(rng: random.Random, text: str) -> str:
    """Return *text* with a letter exchanged, left out, doubled or wrong."""
    if len(text) < 3:
        return text
    at = rng.randrange(len(text) - 1)
    wrong = rng.choice("abcdefghijklmnopqrstuvwxyz" if text[at].isalpha() else "0123456789")
    return rng.choice([
        text[:at] + text[at + 1] + text[at] + text[at + 2 :], text[:at] + text[at + 1 :],
        text[:at] + text[at] + text[at:], text[:at] + wrong + text[at + 1 :],
    ])  # fmt: skip


def _misspelt(field: str) -> Callable[[random.Random, Habit, Person], None]:
    def change(rng: random.Random, _: Habit, person: Person) -> None:
        person[field] = _typo(rng, person[field])

    return change


def _nickname(rng: random.Random, habit: Habit, person: Person) -> None:
    person["first"] = rng.choice(habit.names.nicknames.get(person["first"], [person["first"]]))


def _exchanged(_: random.Random, __: Habit, person: Person) -> None:
    person["first"], person["last"] = person["last"], person["first"]


def _moved(rng: random.Random, habit: Habit, person: Person) -> None:
    person["street"], person["city"] = habit.address(rng, habit.names)
    if rng.random() < 0.4:
        person["phone"] = habit.phone(rng)


def _other_phone(rng: random.Random, habit: Habit, person: Person) -> None:
    person["phone"] = habit.phone(rng)


def _other_email(rng: random.Random, habit: Habit, person: Person) -> None:
    local = rng.choice(
        [person["email"].partition("@")[0], f"{person['first'][:1]}{person['last']}"]
    )
    person["email"] = f"{local.lower()}@{rng.choice(habit.names.domains)}"


def _initial(_: random.Random, __: Habit, person: Person) -> None:
    person["first"] = person["first"][:1] + "."


ERRORS = {
    "first": _misspelt("first"), "last": _misspelt("last"), "street": _misspelt("street"),
    "digit": _misspelt("phone"), "born": _misspelt("born"), "letter": _misspelt("email"),
    "nickname": _nickname, "exchanged": _exchanged, "moved": _moved, "phone": _other_phone,
    "email": _other_email, "initial": _initial,
}  # fmt: skip


def _written(rng: random.Random, habit: Habit, person: Person, *, missing: float) -> dict[str, str]:
    """Return the person as one of the habit's systems writes it."""
    name = f"{person['first']} {person['last']}"
    if rng.random() < 0.08:
        name = f"{person['last']}, {person['first']}"
    try:
        born = date.fromisoformat(person["born"]).strftime(rng.choice(habit.dates))
    except ValueError:  # a typo made it no date
        born = person["born"]
    record = {
        "name": name,
        "address": rng.choice(habit.addresses)(person["street"], person["city"]),
        "phone": rng.choice(habit.phones)(person["phone"]),
        "email": person["email"],
        "birth_date": born,
    }
    for field in ("address", "phone", "email", "birth_date"):
        if rng.random() < missing:
            record[field] = rng.choice(["", "n/a", "unknown"])
    return record
