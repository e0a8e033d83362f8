"""What a run of pytest has once: order, markers, processes to fork from."""
