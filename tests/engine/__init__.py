"""The engine's rules on scripted ports, without a broker."""
