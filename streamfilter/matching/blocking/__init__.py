"""Blocking: which earlier documents each document of a batch is compared with."""
