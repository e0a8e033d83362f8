"""Boilerplate: the table, how it is counted, and what it changes in each verb."""
