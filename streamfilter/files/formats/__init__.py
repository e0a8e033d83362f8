"""Formats of files with rows instead of lines: one module for each value of `input.file_format`.

Each module has a class ``table``, an `Input`, which opens one file. Only the format in use is
imported, so its library may be an extra.
"""
