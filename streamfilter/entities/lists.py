"""Written forms that mean the same: nicknames, titles, parts of addresses, months, country codes.

The lists are our own and short on purpose: a wrong pair joins two persons, and a missing pair only
costs a few points. Their sources are:

- nicknames: short forms in everyday use, written down by us. All but 19 of the English ones are
  also in the list of carltonnorthern/nicknames (Apache-2.0); the others have no list behind them.
- addresses: Publication 28 of the US Postal Service, appendices B and C, and everyday German,
  French, Spanish and Italian abbreviations.
- country codes: ITU-T E.164, the list of assigned country codes. No code is the beginning of
  another, so the first digits decide.

A change of a list changes keys. So it needs another version of its kind (`kinds.KINDS`).
"""

_NICKNAMES = """
abigail abby gail; alexander alex al sandy sasha; alexandra alex sandy sasha; alfred al fred
alfie; alice allie; andrew andy drew; anthony tony; antonio toni; barbara barb babs; benjamin ben
benny; catherine cathy kate katie kathy; katherine kate katie kathy kathryn kat; charles charlie
chuck chas; charlotte lottie charlie; christine chris tina chrissy; christina chris tina;
christopher chris kit; daniel dan danny; david dave davy; deborah deb debbie debby; donald don
donny; dorothy dot dottie; edward ed eddie ned ted teddy; eleanor ellie nell nora; elizabeth liz
beth betty eliza lizzie betsy libby; emily em; florence flo; frances fran fanny; francis frank
fran; frederick fred freddy; gabriel gabe; gerald gerry jerry; gregory greg; harold hal harry;
henry hank harry; herbert herb bert; isabella bella izzy; jacob jake; james jim jimmy jamie;
jeffrey jeff; jennifer jen jenny; jessica jess jessie; john jack johnny; jonathan jon; joseph joe
joey; joshua josh; judith judy; katharina kathi; kenneth ken kenny; kimberly kim; lawrence larry;
leonard leo len lenny; margaret maggie meg peggy marge; martin marty; matthew matt; michael mike
mick mickey; nathaniel nate nat; nicholas nick nicky; pamela pam; patricia pat patty tricia trish;
patrick pat paddy; peter pete; philip phil; raymond ray; rebecca becky becca; richard dick rick
ricky rich; robert bob bobby rob robbie; ronald ron ronny; rosemary rosie; russell russ; samantha
sam; samuel sam sammy; sarah sally sadie; stanley stan; stephen steve stevie; steven steve stevie;
susan sue susie; teresa terry tess; theodore ted teddy theo; theresa terry tess tessa; thomas tom
tommy; timothy tim timmy; victoria vicky tori; vincent vince vinny; walter walt; william bill
billy will willie liam; zachary zach; andreas andi; anna anni; friedrich fritz; hans johannes;
heinrich heinz heiner; josef sepp; matthias matze; maximilian max; sebastian basti; stefan
steffen; ulrich uli; wolfgang wolf; francisco paco pancho; guadalupe lupe; ignacio nacho; jose
pepe; giuseppe beppe; salvatore toto; aleksandr sasha; dmitri dima; ekaterina katya; ivan vanya;
mikhail misha; natalia natasha; vladimir vova volodya
"""


def _groups(text: str) -> list[list[str]]:
    return [group.split() for group in text.split(";")]


def _full_names() -> dict[str, frozenset[str]]:
    """Return for each name the names that it may stand for."""
    found: dict[str, set[str]] = {}
    for group in _groups(_NICKNAMES):
        for each in group:
            found.setdefault(each, set()).add(group[0])
    return {each: frozenset(names) for each, names in found.items()}


NICKNAMES = _full_names()  # name → all full names that it may stand for, itself too

FULL_NAMES = {short: next(iter(names)) for short, names in NICKNAMES.items() if len(names) == 1}
"""Name → its full name, if there is only one: the form in which keys are made."""

_PLACEHOLDERS = """
unknown, not known, not available, not provided, not applicable, n a, na, none, null, nil, tbd,
test, test test, test user, no name, no address, anonymous, unbekannt, inconnu
"""
PLACEHOLDERS = frozenset(" ".join(_PLACEHOLDERS.split()).split(", "))
"""What people write where they know no name or address. One letter three times is one, too."""
PLACEHOLDER_DATES = frozenset(
    {"00010101", "11111111", "18991230", "18991231", "19000101", "19700101", "99991231"}
)
"""Days that forms and programs write for an unknown one: first and last days, 0 as a date."""
PLACEHOLDER_PHONES = ("12345678901234567890", "98765432109876543210")
"""A phone that is a beginning of these is typed along the keyboard."""
_MAILBOXES = """
test none null unknown na n/a no nomail no-mail noemail no-email noreply no-reply donotreply
do-not-reply nobody anonymous xxx asdf
"""
PLACEHOLDER_MAILBOXES = frozenset(_MAILBOXES.split())
PLACEHOLDER_DOMAINS = frozenset({"test.com", "none.com", "noemail.com", "nomail.com"})
"""Mailboxes and domains of no person, such as ``none@none.com``."""

_TITLES = """
mr mrs ms miss mx dr prof sir herr frau monsieur mme mlle senor senora sig dipl ing
"""
TITLES = frozenset(_TITLES.split())
GENERATIONS = {
    "jr": "jr", "junior": "jr", "sr": "sr", "senior": "sr", "ii": "ii", "iii": "iii", "iv": "iv",
}  # fmt: skip
"""Word that tells a father from a son of one name → its short form."""

_ADDRESS = """
st street saint str strasse; ave avenue av aven; rd road; blvd boulevard boul bd; dr drive drv; ln
lane; ct court; cir circle; pl place platz; plaza plz; sq square; ter terrace terr; pkwy parkway;
hwy highway; trl trail; cres crescent; gdns gardens gdn; hts heights; mt mount mountain; ft fort;
apt apartment unit flat suite ste appt wohnung whg; fl floor; bldg building; n north; s south; e
east; w west; ne northeast; nw northwest; se southeast; sw southwest; c calle; avda avenida; v via
"""

ADDRESS_WORDS = {long: short for short, *words in _groups(_ADDRESS) for long in words}
"""Word of an address → its short form. ``st`` is a street and a saint."""

_MONTHS = """
jan january januar janvier enero gennaio janeiro januari; feb february februar fevrier febrero
febbraio fevereiro februari; mar march marz maerz mars marzo marco maart; apr april avril abril
aprile; may mai mayo maggio maio mei; jun june juni juin junio giugno junho; jul july juli juillet
julio luglio julho; aug august aout agosto augustus; sep sept september septembre septiembre
settembre setembro; oct okt october oktober octobre octubre ottobre outubro; nov november novembre
noviembre novembro; dec dez december dezember decembre diciembre dicembre dezembro
"""
MONTHS = {name: number for number, names in enumerate(_groups(_MONTHS), 1) for name in names}

_TWO_DIGITS = (
    "20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 "
    "65 66 81 82 84 86 90 91 92 93 94 95 98"
)
COUNTRY_CODES = frozenset(_TWO_DIGITS.split()) | {"1", "7"}
"""Country codes of one or two digits; all others have three."""
