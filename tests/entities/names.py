"""Names of the people in generated registers, with short forms that people write."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one country's people, streets and mail providers."""

    first: list[str]
    last: list[str]
    streets: list[str]
    domains: list[str]
    nicknames: dict[str, list[str]]


def words(text: str) -> list[str]:
    return text.split()


def short(names: dict[str, str]) -> dict[str, list[str]]:
    return {name: words(forms) for name, forms in names.items()}


ENGLISH = Names(
    words(
        "James Robert John Michael William David Richard Joseph Thomas Charles Christopher Daniel "
        "Matthew Anthony Donald Steven Andrew Kenneth Joshua Kevin Brian George Timothy Ronald "
        "Edward Jason Jeffrey Ryan Jacob Gary Nicholas Eric Jonathan Stephen Larry Justin Scott "
        "Brandon Benjamin Samuel Gregory Alexander Patrick Frank Raymond Jack Dennis Jerry Mary "
        "Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Sarah Karen Lisa Nancy Betty "
        "Sandra Margaret Ashley Kimberly Emily Donna Michelle Carol Amanda Melissa Deborah "
        "Stephanie Rebecca Sharon Laura Cynthia Dorothy Amy Kathleen Angela Shirley Brenda Emma "
        "Anna Pamela Nicole Samantha Katherine Christine Helen Debra Rachel Carolyn Janet Maria "
        "Olivia Heather Diane Julie"
    ),
    words(
        "Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez "
        "Lopez Gonzalez Wilson Anderson Thomas Taylor Moore Jackson Martin Lee Perez Thompson "
        "White Harris Sanchez Clark Ramirez Lewis Robinson Walker Young Allen King Wright Scott "
        "Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell Carter "
        "Roberts Gomez Phillips Evans Turner Diaz Parker Cruz Edwards Collins Reyes Stewart "
        "Morris Morales Murphy Cook Rogers Gutierrez Ortiz Morgan Cooper Peterson Bailey Reed "
        "Kelly Howard Ramos Kim Cox Ward Richardson Watson Brooks Chavez Wood James Bennett Gray "
        "Mendoza Ruiz Hughes Price Alvarez Castillo Sanders Patel Myers Long Ross Foster Jimenez "
        "O'Brien McDonald Fitzgerald"
    ),
    words(
        "Oak Maple Cedar Pine Elm Washington Lake Hill Walnut Spring North Ridge Church Willow "
        "Mill Sunset Railroad Jefferson Center Highland Forest Jackson River Meadow Franklin "
        "Cherry Dogwood Hickory Chestnut Lincoln Park Main College Prospect Locust Birch Poplar "
        "Valley"
    ),
    words(
        "gmail.com yahoo.com outlook.com example.org mail.example.com aol.com"
    ),
    short({
        "Robert": "Bob Rob", "William": "Bill Will", "Richard": "Rick Dick", "James": "Jim",
        "Michael": "Mike", "Thomas": "Tom", "Elizabeth": "Liz Beth", "Margaret": "Peggy Maggie",
        "Katherine": "Kate Kathy", "Joseph": "Joe", "Charles": "Chuck Charlie", "Christopher":
        "Chris", "Daniel": "Dan", "Matthew": "Matt", "Anthony": "Tony", "Edward": "Ed Ted",
        "Andrew": "Andy", "Steven": "Steve", "Patricia": "Pat Trish", "Jennifer": "Jen",
        "Deborah": "Debbie", "Rebecca": "Becky", "Samuel": "Sam", "Benjamin": "Ben", "Nicholas":
        "Nick", "Gregory": "Greg", "Susan": "Sue", "Barbara": "Barb", "Pamela": "Pam", "Timothy":
        "Tim", "Kenneth": "Ken", "Ronald": "Ron",
    }),
)  # fmt: skip
GERMAN = Names(
    words(
        "Hans Peter Wolfgang Klaus Jürgen Dieter Manfred Uwe Günter Stefan Andreas Thomas Michael "
        "Bernd Frank Jörg Sebastian Matthias Maximilian Lukas Jonas Björn Sören Ursula Sabine "
        "Petra Renate Monika Karin Helga Brigitte Ingrid Erika Andrea Claudia Susanne Gabriele "
        "Katharina Stefanie Nicole Anja Bärbel Käthe Jean François Hélène André Michèle René Zoé "
        "Éloïse Jérôme Benoît Chloé Noémie Amélie Marie-Claire Jean-Luc Céline Gérard Élodie "
        "Mathieu"
    ),
    words(
        "Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Schäfer Koch "
        "Bauer Richter Klein Wolf Schröder Neumann Schwarz Zimmermann Braun Krüger Hofmann "
        "Hartmann Lange Schmitt Werner Krause Meier Lehmann Köhler Herrmann König Walter Huber "
        "Kaiser Fuchs Peters Lang Scholz Möller Weiß Jung Hahn Schubert Vogel Friedrich Keller "
        "Günther Frank Berger Lefèvre Dupont Durand Leroy Moreau Lefebvre Garçon Bérenger "
        "Gauthier Perrin Chevalier Renaud Lemaître Guérin Noël Dufour Blanchard Brunner Gruber "
        "Steiner Egger"
    ),
    words(
        "Haupt Schul Garten Bahnhof Dorf Berg Kirch Wald Ring Goethe Schiller Mozart Beethoven "
        "Linden Birken Rosen Mühlen Brunnen Kaiser Luisen Friedrich Bismarck Hafen Markt Burg "
        "Jäger"
    ),
    words(
        "gmx.de web.de t-online.de example.org free.fr bluewin.ch"
    ),
    short({
        "Sebastian": "Basti", "Maximilian": "Max", "Matthias": "Matze", "Andreas": "Andi",
        "Michael": "Mike", "Thomas": "Tom", "Katharina": "Kathi", "Stefanie": "Steffi", "Susanne":
        "Susi", "Gabriele": "Gabi", "Wolfgang": "Wolf", "Klaus": "Niklas",
    }),
)  # fmt: skip
