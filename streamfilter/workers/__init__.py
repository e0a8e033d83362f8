"""Reading and sketching in other processes, on the other cores: a function of the values alone."""
