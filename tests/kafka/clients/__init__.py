"""What the clients refuse, report and renew."""
