"""The directory of an index: its lock, marker and identity; opening, backup and inspection."""
