import json

import pytest

from streamfilter.index.directory.identity import decode_identity, differences
from streamfilter.index.errors import FormatError, IndexMismatch
from tests.index.samples import SCHEME, identity
from tests.support.cases import cases
from tests.support.values import replace

SEED = identity().seed
FORMS = (SEED, SEED.hex().encode(), repr(SEED).encode(), SEED[:8])


def shows_the_seed(text: bytes) -> bool:
    return any(form in text for form in FORMS)


def test_an_identity_comes_back_from_its_bytes() -> None:
    assert decode_identity(identity().encode()) == identity()
    external = identity(external_seed=True)
    assert decode_identity(external.encode(), seed=SEED) == external


def test_the_seed_is_in_no_text_about_an_identity() -> None:
    one, other = identity(), identity(seed=b"another of 16 by")
    told = "\n".join([repr(one), str(one), f"{one}", *differences(one, other)])
    with pytest.raises(FormatError) as broken:
        decode_identity(one.encode().replace(b'"created"', b'"forgotten"'))
    with pytest.raises(IndexMismatch) as refused:
        decode_identity(one.encode(), seed=other.seed)
    told += "".join(map(repr, (broken.value, broken.value.__cause__, refused.value)))
    assert not shows_the_seed(told.encode())
    assert shows_the_seed(one.encode()), "the check itself must be able to fail"


def test_an_external_seed_is_not_written_down() -> None:
    assert not shows_the_seed(identity(external_seed=True).encode())


def test_an_external_seed_must_be_given_and_be_the_right_one() -> None:
    stored = identity(external_seed=True).encode()
    with pytest.raises(IndexMismatch, match=r"set index\.seed_file"):
        decode_identity(stored)
    with pytest.raises(IndexMismatch, match="ways out") as refused:
        decode_identity(stored, seed=b"another of 16 by")
    assert refused.value.differences == ("seed",)


def test_the_check_of_a_seed_is_another_for_another_index() -> None:
    checks = {identity(index_id=f"{i:032x}", external_seed=True).seed_check for i in range(5)}
    assert len(checks) == 5


@cases("data", [b"", b"\xff", b"[1]", b"{}", b'{"format": "1"}', b"[" * 9_000])
def test_bytes_that_are_no_identity_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_identity(data)


@cases("field", ["index_id", "scheme", "seed", "created", "scheme_fingerprint"])
def test_an_identity_that_lacks_a_field_is_refused(field: str) -> None:
    fields = json.loads(identity().encode())
    del fields[field]
    with pytest.raises(FormatError):
        decode_identity(json.dumps(fields).encode())


def test_differences_name_each_field_of_the_scheme_by_its_path() -> None:
    scheme = SCHEME.replace('"size":3', '"size":5').replace('"bands":3', '"bands":2')
    other = identity(scheme=scheme, scheme_fingerprint="ffffffff")
    assert differences(identity(), other) == [
        "scheme.bands: it has 3, wanted is 2",
        "scheme.shingling.size: it has 3, wanted is 5",
    ]


def test_differences_name_index_and_seed_but_not_the_age_of_an_index() -> None:
    one = identity()
    other = replace(one, index_id="aa" * 16, seed=b"another of 16 by")
    assert [line.split(":")[0] for line in differences(one, other)] == ["index_id", "seed"]
    assert differences(one, replace(one, created=1, unicode_version="15.0.0")) == []
    assert "scheme_fingerprint" in differences(one, replace(one, scheme_fingerprint="0"))[0]


@pytest.mark.parametrize("wrong", [{"seed": b"short"}, {"index_id": "0f"}, {"index_id": "x" * 32}])
def test_an_identity_of_the_wrong_shape_cannot_be_made(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"16 bytes|hexadecimal"):
        identity(**wrong)
