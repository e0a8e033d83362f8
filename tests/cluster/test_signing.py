"""Which resumes an edge obeys."""

import numpy as np

from streamfilter.cluster.ranges import ALONE, NO_CAUSE, RANGE_BYTES, VerdictRange
from streamfilter.cluster.signing import Signing

MARK = bytes(16)
NONE = np.zeros(0, np.int64)


class Signer:
    """Delivers each message at the next offset."""

    largest = RANGE_BYTES

    def __init__(self) -> None:
        self.count, self.offset, self.done = 0, 0, {}

    def send(self, partition, message):
        self.count, self.offset = self.count + 1, self.offset + 1
        self.done[self.count] = self.offset - 1
        return self.count

    def delivered(self):
        done, self.done = self.done, {}
        return done


class Clock:
    now = 0.0

    def monotonic(self):
        self.now += 2.0
        return self.now


def resume(at: int, cause: int) -> VerdictRange:
    return VerdictRange(MARK, at, at, NONE, cause=cause)


def test_a_resume_of_a_topic_that_was_created_again_is_obeyed():
    signer = Signer()
    signing = Signing(signer, Clock(), MARK, {0: 0})
    signer.offset = 500
    signing.skip({0: 9})
    assert signing.hear(0, resume(0, 600))
    signing.skip({0: 9})
    assert not signing.hear(0, resume(0, 7)), "caused before it signed again"
    signer.offset = 0
    assert signing.inquire() == [0]
    assert signing.hear(0, resume(0, 0))
    assert signing.signed == {0: 0}


def test_the_first_resume_of_a_judge_never_makes_it_sign_again():
    signing = Signing(Signer(), Clock(), MARK, {0: 0})
    signing.skip({0: 9})
    assert not signing.hear(0, resume(0, NO_CAUSE))
    assert signing.outstanding() == [0]
    assert not signing.hear(0, resume(12, ALONE))
    assert (signing.signed, signing.outstanding()) == ({0: 12}, []), "nothing to wait for"
