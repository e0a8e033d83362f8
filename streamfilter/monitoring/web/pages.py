"""The pages by path: metrics, probes, the status as JSON, and a page for people. No sockets here.

No page queries the broker or the index; it shows what the loop last reported. The exceptions are
``/explain`` and ``/query``, which run a command.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from math import isnan
from typing import Any

import streamfilter
from streamfilter import monitoring
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web.history import History
from streamfilter.monitoring.web.questions import BUSY, Questions, Reply
from streamfilter.monitoring.web.showcase import Showcase, Shown
from streamfilter.process.health import Health, instance
from streamfilter.process.logs import MASKER
from streamfilter.stops import ConfigError

logger = logging.getLogger("streamfilter.http")

Answer = tuple[int, str, bytes]  # status code, content type, body

OPEN = frozenset({"/livez", "/readyz", "/metrics"})
"""Pages without texts and ids: they answer under any host name, for probes and scrapes."""
EXPLAIN = "/explain"
"""Runs a command: it is answered to the page itself, not to a page of another site."""
QUERY = "/query"
"""Runs a command: it is answered to programs with the token."""
STATIC = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}


@dataclass(frozen=True, slots=True)
class Pages:
    """Returns the page of each path."""

    health: Health
    metrics: Metrics
    showcase: Showcase = field(default_factory=Showcase)
    shown: Shown = field(default_factory=Shown)
    questions: Questions = field(default_factory=Questions)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", History(self.metrics))

    @property
    def _table(self) -> dict[str, Callable[[str], Answer]]:
        return {
            "/metrics": self._scrape,
            "/livez": self._live,
            "/readyz": self._ready,
            "/status": self._status,
            "/page.json": self._page,
        }

    def answer(self, path: str, accept: str = "") -> Answer:
        """Return the answer for *path*; only ``/explain`` reads its query string."""
        path, _, query = path.partition("?")
        if path == EXPLAIN:
            return self._counted(self.questions.explained(query))
        if path in STATIC:
            name, content_type = STATIC[path]
            return 200, content_type, files(monitoring).joinpath("page", name).read_bytes()
        page = self._table.get(path)
        if page is None:
            known = sorted([*STATIC, *self._table, EXPLAIN])
            return _json(404, {"error": "no such page", "pages": known})
        return page(accept)

    def refused(self, authorization: str | None) -> Answer | None:
        """Return why a client with this header may not ask `QUERY`; None: it may."""
        tokens = self.questions.tokens
        if tokens is None:
            off = "programs may not ask here; http.query turns it on"
            return self._counted((HTTPStatus.NOT_FOUND, {"error": off}))
        try:
            if tokens.accepts(authorization):
                return None
        except ConfigError as error:  # the path of the file is not for those without the token
            logger.warning("%s", error)
            away = "the token cannot be read here; the log has the reason"
            return self._counted((HTTPStatus.SERVICE_UNAVAILABLE, {"error": away}))
        wanted = "send the header Authorization: Bearer TOKEN, with that of http.query_token_file"
        return self._counted((HTTPStatus.UNAUTHORIZED, {"error": wanted}))

    def queried(self, query: str, content_type: str, body: bytes) -> Answer:
        """Return the near-duplicates of *body*, and how far the index is behind the input."""
        code, answer = self.questions.queried(query, content_type, body)
        status = self.health.status
        lag = status.lag.values()
        answer |= {
            "state": status.state,
            "lag_records": sum(lag) if lag else None,
            "restore_remaining_records": status.restore_remaining,
        }
        return self._counted((code, answer))

    def _counted(self, reply: Reply) -> Answer:
        code, answer = reply
        results = {HTTPStatus.OK: "answered", HTTPStatus.SERVICE_UNAVAILABLE: "failed"}
        result = "busy" if answer.get("error") == BUSY else results.get(HTTPStatus(code), "refused")
        self.metrics.count("questions_total", result)
        return _json(code, answer)

    def _scrape(self, accept: str) -> Answer:
        content_type, body = self.metrics.expose(accept)
        return 200, content_type, body

    def _live(self, accept: str) -> Answer:
        live = self.health.liveness
        answer = {
            "live": live.alive,
            "reason": live.reason,
            "heartbeat_age_seconds": round(live.age_seconds, 3),
            "bound_seconds": live.bound_seconds,
        }
        return _json(200 if live.alive else 503, answer)

    def _ready(self, accept: str) -> Answer:
        status, ready = self.health.status, self.health.ready
        answer = {"ready": ready, "state": status.state, "detail": status.detail}
        return _json(200 if ready else 503, answer)

    def _status(self, accept: str) -> Answer:
        status = self.health.status
        parts = {"positions": dict(status.positions), "lag": dict(status.lag)}
        return _json(200, self._summary() | parts)

    def _page(self, accept: str) -> Answer:
        """Return what the page needs each second: no list of partitions, which may be long."""
        lag = self.health.status.lag.values()
        more = {"lag_records": sum(lag) if lag else None, "history": self.history.as_dict()}
        return _json(200, self._summary() | more, indent=None)

    def _summary(self) -> dict[str, Any]:
        status, live = self.health.status, self.health.liveness
        return {
            "version": streamfilter.__version__,
            "state": status.state,
            "detail": status.detail,
            "ready": self.health.ready,
            "live": live.alive,
            "uptime_seconds": round(self.health.uptime_seconds, 1),
            "scheme": status.scheme,
            "index_id": status.index_id,
            "topic": self.shown.topic,
            "group": self.shown.group,
            "instance": instance(),
            "tasks": list(status.tasks),
            "owners": dict(status.owners),
            "verdicts": self.metrics.verdicts(),
            "index_documents": status.documents,
            "index_since_seconds": _known(self.metrics.value("index_oldest_timestamp_seconds")),
            "index_expected_bytes": _known(self.metrics.value("index_expected_bytes")),
            "index_filter_bits": _known(self.metrics.value("rocksdb_front_density")),
            "index_bytes": _known(self.metrics.value("index_bytes")),
            "backup_made_seconds": status.backup_made,
            "backup_failure": status.backup_failure,
            "restore_remaining_records": status.restore_remaining,
            "mode": self.shown.mode,
            "threshold": self.shown.threshold,
            "quality": self.metrics.quality(),
            "similarities": self.metrics.similarities(),
            "show_payloads": self.shown.payloads,
            "latest": self.showcase.as_dicts(),
        }


def _known(number: float) -> float | None:
    """Return a gauge's *number*, or None where it is not known yet: JSON has no NaN."""
    return None if isnan(number) else number


def _json(code: int, value: object, indent: int | None = 2) -> Answer:
    # A reason may contain a library's message, which may quote a setting.
    body = MASKER.mask(json.dumps(value, indent=indent, ensure_ascii=True)).encode() + b"\n"
    return code, "application/json", body
