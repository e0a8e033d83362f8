"""What people do with an index while it works: fill it, correct its verdicts, copy it."""
