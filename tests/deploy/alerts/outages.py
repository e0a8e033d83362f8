"""Stories of two scraped processes, minute by minute: what promtool is given, and what must fire.

Every series that an alert asks for is there in health; a story then takes away, resets or freezes
what such an event would. So each alert is held to each story, those that must stay quiet too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

BEFORE, LENGTH = 120, 600
"""Minutes: of health before anything happens, and altogether."""
INSTANCES = ("a", "b")

Minutes = Callable[[int], float | None]
"""A series: its value at a minute, None while it is not there."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as its target shows it from minute to minute."""

    answers: Callable[[int], bool] = lambda minute: True
    scraped: Callable[[int], bool] = lambda minute: True
    """False: discovery has forgotten it, and even ``up`` is gone."""
    state: Callable[[int], str] = lambda minute: "standby"
    consumed: Callable[[int], float] = lambda minute: 0.0
    lag: Callable[[int], float] = lambda minute: float("nan")
    started: Callable[[int], float] = lambda minute: 1.0


@dataclass(frozen=True, slots=True)
class Story:
    """What happens to two processes, and which alerts fire when."""

    name: str
    a: Process
    b: Process
    fires: dict[int, frozenset[str]] = field(default_factory=dict)
    """Alert names without their prefix, by minute."""

    def series(self) -> list[dict[str, str]]:
        """Return promtool's input series."""
        return [
            {"series": f"{name}{{{labels}}}", "values": _spelled(values)}
            for instance, process in zip(INSTANCES, (self.a, self.b), strict=True)
            for name, labels, values in _shown(instance, process)
        ]


STATES = ("running", "standby", "restoring", "starting", "paused:disk", "fenced")


def _shown(instance: str, process: Process) -> list[tuple[str, str, Minutes]]:
    labels = f'job="streamfilter", instance="{instance}"'

    def here(value: Callable[[int], float]) -> Minutes:
        def at(minute: int) -> float | None:
            there = process.scraped(minute) and process.answers(minute)
            return value(minute) if there else None

        return at

    def share(part: float) -> Minutes:
        return here(lambda minute: part * process.consumed(minute))

    def working(value: float) -> Minutes:
        return here(lambda minute: value * (process.state(minute) == "running"))

    def up(minute: int) -> float | None:
        return float(process.answers(minute)) if process.scraped(minute) else None

    found: list[tuple[str, str, Minutes]] = [
        ("up", labels, up),
        ("streamfilter_records_consumed_total", labels, share(1)),
        ("streamfilter_end_to_end_seconds_count", labels, share(1)),
        ("streamfilter_end_to_end_seconds_bucket", f'{labels}, le="10.0"', share(1)),
        ("streamfilter_dead_letters_total", f'{labels}, code="wrong_type"', share(0.01)),
        ("streamfilter_documents_total", f'{labels}, verdict="near_duplicate"', share(0.2)),
        ("streamfilter_verifications_total", f'{labels}, outcome="confirmed"', share(0.2)),
        ("streamfilter_verifications_total", f'{labels}, outcome="rejected"', share(0.2)),
        ("streamfilter_boilerplate_documents_total", f'{labels}, left="all"', share(0.9)),
        ("streamfilter_boilerplate_documents_total", f'{labels}, left="few"', share(0.1)),
        ("streamfilter_boilerplate_sample_share", f'{labels}, left="all"', here(lambda _: 0.9)),
        ("streamfilter_boilerplate_sample_share", f'{labels}, left="few"', here(lambda _: 0.1)),
        ("streamfilter_faintly_listed_documents_total", labels, here(lambda _: 0)),
        ("streamfilter_consumer_lag_records", labels, here(process.lag)),
        ("streamfilter_consumer_lag_seconds", labels, here(process.lag)),
        ("streamfilter_audit_recall_upper", labels, here(lambda _: 0.99)),
        ("streamfilter_audit_changes_total", f'{labels}, figure="recall"', here(lambda _: 0)),
        ("streamfilter_audit_changes_total", f'{labels}, figure="wrong"', here(lambda _: 0)),
        ("streamfilter_index_bytes", labels, here(lambda _: 1e10)),
        ("streamfilter_index_expected_bytes", labels, here(lambda _: 5e10)),
        ("streamfilter_disk_free_bytes", labels, here(lambda _: 1e11)),
        ("streamfilter_rocksdb_front_pass_rate", labels, here(lambda _: 0.001)),
        ("streamfilter_changelog_surplus_records", labels, here(lambda _: 0)),
        ("streamfilter_backup_every_seconds", labels, here(lambda _: 3600)),
        ("streamfilter_backup_last_timestamp_seconds", labels, here(lambda t: 60 * t)),
        ("streamfilter_changelog_faults", f'{labels}, fault="settings"', here(lambda _: 0)),
        ("streamfilter_changelog_faults", f'{labels}, fault="beginning"', here(lambda _: 0)),
        ("streamfilter_rocksdb_is_write_stopped", labels, here(lambda _: 0)),
        ("streamfilter_rocksdb_background_errors", labels, here(lambda _: 0)),
        ("streamfilter_transactions_total", f'{labels}, outcome="fenced"', here(lambda _: 0)),
        ("streamfilter_scheme_info", f'{labels}, scheme="a1b2c3d4"', here(lambda _: 1)),
        ("streamfilter_index_documents", labels, here(lambda _: 50_000)),
        ("streamfilter_assigned_partitions", labels, working(12)),
        ("streamfilter_paused_partitions", f'{labels}, reason="disk"', here(lambda _: 0)),
        ("streamfilter_build_info", f'{labels}, version="1"', here(lambda _: 1)),
        ("process_start_time_seconds", labels, here(process.started)),
        ("streamfilter_role", f'{labels}, role="alone"', here(lambda _: 1)),
        ("streamfilter_role", f'{labels}, role="edge"', here(lambda _: 0)),
        ("streamfilter_edge_waiting_seconds", labels, here(lambda _: float("nan"))),
        ("streamfilter_judge_busy_ratio", labels, here(lambda _: float("nan"))),
    ]
    for state in STATES:
        shown = here(lambda minute, state=state: float(process.state(minute) == state))
        found.append(("streamfilter_state", f'{labels}, state="{state}"', shown))
    return found


def _spelled(series: Minutes) -> str:
    """Return a series in promtool's words: a target that goes leaves a staleness mark."""
    words, was_there = [], False
    for minute in range(LENGTH):
        value = series(minute)
        there = value is not None
        words.append(f"{value:g}" if there else "stale" if was_there else "_")
        was_there = there
    return " ".join(words)


def _until(minute: int) -> Callable[[int], bool]:
    return lambda now: now < minute


def _steady(since: int = 0) -> Callable[[int], float]:
    return lambda minute: 600.0 * max(0, minute - since)


def _always(value: float) -> Callable[[int], float]:
    return lambda _: value


WORKING = Process(state=lambda _: "running", consumed=_steady(), lag=_always(0))
STANDING_BY = Process()
OUT = BEFORE
TAKEOVER, RESTART = 2, 3
"""Minutes: until another works, and until a process is back."""


def _takes_over(process: Process) -> Process:
    at = OUT + TAKEOVER
    return Process(
        process.answers,
        process.scraped,
        state=lambda minute: "running" if minute >= at else "standby",
        consumed=_steady(at),
        lag=lambda minute: 0.0 if minute >= at else float("nan"),
    )


def _gone(process: Process, *, forgotten: bool) -> Process:
    lost = {"scraped": _until(OUT)} if forgotten else {"answers": _until(OUT)}
    rest = {"state": process.state, "consumed": process.consumed, "lag": process.lag}
    return Process(**lost, **rest)


def _restarted(process: Process) -> Process:
    """Away for some minutes, and its counters begin anew."""
    back = OUT + RESTART

    def consumed(minute: int) -> float:
        return process.consumed(minute) - (process.consumed(back) if minute >= back else 0)

    def answers(minute: int) -> bool:
        return not OUT <= minute < back

    def started(minute: int) -> float:
        return float(minute >= back)

    return Process(
        answers, state=process.state, consumed=consumed, lag=process.lag, started=started
    )


def _crashing(process: Process) -> Process:
    """From a minute on it ends every ten minutes, and is back two minutes later."""
    return Process(
        lambda minute: minute < OUT or (minute - OUT) % 10 >= 2,
        state=process.state,
        lag=process.lag,
        started=lambda minute: max(0, minute - OUT + 10) // 10,
    )


def _sleepless(process: Process) -> Process:
    """Nothing comes in from a minute on."""
    return Process(
        state=process.state,
        consumed=lambda minute: process.consumed(min(minute, OUT)),
        lag=process.lag,
    )


QUIET: frozenset[str] = frozenset()
PAGED = frozenset({"NobodyWorks", "Down"})
UNREAD = frozenset({"PartitionsUnread"})
SOON, LATE = OUT + 8, OUT + 240

STORIES = (
    Story("health", WORKING, STANDING_BY, dict.fromkeys((OUT, LATE), QUIET)),
    Story(
        "total outage: no target answers",
        _gone(WORKING, forgotten=False), _gone(STANDING_BY, forgotten=False),
        {OUT + 4: QUIET, SOON: PAGED, LATE: PAGED},
    ),
    Story(
        "vanished: discovery has forgotten every target",
        _gone(WORKING, forgotten=True), _gone(STANDING_BY, forgotten=True),
        {OUT + 4: QUIET, SOON: frozenset({"NobodyWorks"}), LATE: frozenset({"NobodyWorks"})},
    ),
    Story(
        "one of two does not answer, and the other takes over",
        _gone(WORKING, forgotten=False), _takes_over(STANDING_BY),
        {SOON: frozenset({"Down"}), LATE: frozenset({"Down"})},
    ),
    Story(
        "one of two is forgotten by discovery, and the other takes over",
        _gone(WORKING, forgotten=True), _takes_over(STANDING_BY),
        {SOON: QUIET, OUT + 20: frozenset({"TargetGone"}), OUT + 60: frozenset({"TargetGone"})},
    ),
    Story(
        "one of two does not answer, and no process takes over",
        _gone(WORKING, forgotten=False), STANDING_BY,
        {OUT + 4: QUIET, SOON: PAGED, LATE: PAGED | UNREAD},
    ),
    Story(
        "both restart",
        _restarted(WORKING), _restarted(STANDING_BY),
        dict.fromkeys((OUT + 1, OUT + 4, SOON, OUT + 20, LATE), QUIET),
    ),
    Story(
        "the only one that works ends again and again",
        _crashing(WORKING), STANDING_BY,
        {OUT + 4: QUIET, OUT + 45: frozenset({"CrashLoop"}), LATE: frozenset({"CrashLoop"})},
    ),
    Story(
        "no traffic at night",
        _sleepless(WORKING), STANDING_BY,
        dict.fromkeys((SOON, OUT + 30, OUT + 90, LATE, LENGTH - 1), QUIET),
    ),
)  # fmt: skip
