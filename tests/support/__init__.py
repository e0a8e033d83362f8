"""What several test directories share: a broker's topics, a running filter, a stage for both."""
