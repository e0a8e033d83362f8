"""Disks, clocks, memory and terminals of a test."""
