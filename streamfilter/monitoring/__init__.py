"""What the process tells of itself: metrics, live quality, health's pages, the page for people."""
