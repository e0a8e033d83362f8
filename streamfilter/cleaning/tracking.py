"""Removes from an address the parameters that only say who clicked where."""

from __future__ import annotations

import re
from fnmatch import translate
from itertools import chain

PARAMETERS = (
    "utm_*", "mtm_*", "pk_*", "piwik_*", "matomo_*", "hsa_*", "oly_*", "vero_*", "_hs*", "__hs*",
    "ga_*", "_ga", "_gl", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid",
    "twclid", "ttclid", "li_fat_id", "yclid", "ysclid", "igsh", "igshid", "mc_cid", "mc_eid",
    "mkt_tok", "s_cid", "wickedid", "rb_clickid", "irclickid", "srsltid", "ref_src", "ref_url",
    "cmpid", "ocid", "ncid", "sc_campaign", "sc_channel", "sc_country", "sc_geo", "sc_outcome",
    "at_campaign*", "at_medium", "at_custom*", "xtor", "guccounter", "guce_referrer*", "smid",
)  # fmt: skip
"""Names of such parameters, after the public lists of browsers and of their blockers."""

_AND = re.compile("&(?:amp;)?", re.IGNORECASE)
_TRACKING = re.compile("|".join(map(translate, PARAMETERS)), re.IGNORECASE)


def untracked(address: str) -> str:
    """Return *address* without its tracking parameters; all else stays as it is.

    ``&amp;``, as HTML writes it, parts parameters like ``&``.
    Example: ``https://a.org/x?utm_source=n&id=7#top`` becomes ``https://a.org/x?id=7#top``.
    """
    rest, hash_, fragment = address.partition("#")
    base, question, query = rest.partition("?")
    if not question:
        return address
    signs = ["", *_AND.findall(query)]
    pairs = zip(signs, _AND.split(query), strict=True)
    kept = [pair for pair in pairs if not _TRACKING.fullmatch(pair[1].partition("=")[0])]
    joined = "".join(chain.from_iterable(kept)).removeprefix(kept[0][0] if kept else "")
    return base + ("?" if kept else "") + joined + hash_ + fragment
