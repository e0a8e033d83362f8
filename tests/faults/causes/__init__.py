"""What goes wrong: networks, disks, processes."""
