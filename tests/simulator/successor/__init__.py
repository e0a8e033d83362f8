"""A group whose input another one takes over (`run --take-over`), whatever befalls both."""
