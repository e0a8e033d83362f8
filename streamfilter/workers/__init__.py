"""Worker processes that read and sketch on other cores; the result depends on the values alone."""
