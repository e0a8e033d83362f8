"""Kills, torn logs, failing disks and backups of an index."""
