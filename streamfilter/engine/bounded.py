"""A call that may outlast its own timeout, in a thread that can be left behind.

librdkafka never checks the timeout of the request to the group's coordinator
(librdkafka#5456): `send_offsets_to_transaction` waited for ever after a coordinator was lost, and
the loop with it, while the group's heartbeats went on and nobody could take over. Who is left
behind belongs to a producer that is replaced, and so fenced: whatever it still does is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamfilter.engine.ports import OutcomeUnknown

GRACE_SECONDS = 3.0
"""How much longer than its own timeout a call may take: it is late before it is lost."""


def bounded(call: Callable[[], None], *, seconds: float, doing: str) -> None:
    """Make *call* in a thread, and wait for it for *seconds* and a grace.

    Raises:
        OutcomeUnknown: it did not return; the thread is left to itself.
        Exception: whatever *call* raises.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="bounded", daemon=True)
    thread.start()
    thread.join(seconds + GRACE_SECONDS)
    if thread.is_alive():
        raise OutcomeUnknown(f"{doing}: no answer within {seconds:g} s, against its own timeout")
    if raised:
        raise raised[0]
