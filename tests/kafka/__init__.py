"""The engine on a real broker; the parts that need none in files of their own."""
