"""Answers that are known from elsewhere: Python, other libraries, earlier versions."""
