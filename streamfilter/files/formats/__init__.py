"""Formats of files: lines, and one module for each value of `input.file_format` with rows.

A module of rows has a class ``table``, an `Input` (`protocol`), which opens one file. Only the
format in use is imported, so its library may be an extra.
"""
