"""Process management: logs, signals, limits, the watchdog, systemd."""
