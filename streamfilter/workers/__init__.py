"""Sketching in other processes, on the other cores: a function of the texts and of nothing else."""
