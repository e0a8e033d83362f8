"""Formats of files that hold rows instead of lines, a file each, called as `input.file_format` is.

Each has a function ``table`` that opens one file as an `Input`. Only the format that is read is
ever imported, so its library may be an extra.
"""
