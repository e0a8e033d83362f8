"""Formats of files that hold rows instead of lines, a file each, called as `input.file_format` is.

Each has a class ``table``, an `Input`, which opens one file. Only the format that is read is
ever imported, so its library may be an extra.
"""
