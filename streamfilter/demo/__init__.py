"""The demo: sends stories through the real filter, and keeps a ledger of inputs and outputs."""
