"""What an attacker or a careless operator could do, and cannot."""
