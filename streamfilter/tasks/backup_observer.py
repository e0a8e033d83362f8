"""Reports the backups of a process's tasks to metrics, health and the log."""

from __future__ import annotations

from math import nan

from streamfilter.engine.observer import Observer


class BackupObserver:
    """Shows when the newest whole backup was made, and why the last try failed."""

    def __init__(self, process: Observer) -> None:
        self.process = process
        self._made: dict[str, float] = {}  # Unix time of each task's newest whole backup

    def backed_up(self, task: str, made: int, sent: int) -> None:
        """Show when the newest whole backup of a *task* was made (ms); count the *sent* bytes."""
        self._made[task] = made / 1000
        self.process.metrics.count("backup_bytes_total", by=sent)
        self._show("")

    def failed(self, task: str, reason: str, message: str) -> None:
        """Count and show a backup that failed; the filter goes on."""
        self._made.setdefault(task, 0.0)
        self.process.metrics.count("backup_failures_total", reason)
        self._show(message)
        self.process.loudly(f"{task} is not backed up, and tries again: {message}")

    def ended(self, task: str) -> None:
        """Remove a *task* that this process lost: another one takes its backups now."""
        if self._made.pop(task, None) is not None:
            self._show("")

    def _show(self, failure: str) -> None:
        oldest = min(self._made.values(), default=None)
        shown = nan if oldest is None else oldest
        self.process.metrics.set(backup_last_timestamp_seconds=shown)
        self.process.health.report(backup_made=oldest, backup_failure=failure)
