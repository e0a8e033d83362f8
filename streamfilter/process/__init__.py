"""The process, not the filter: logs, signals, limits, the watchdog, systemd."""
