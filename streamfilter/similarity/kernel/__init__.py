"""The kernel: numpy's passes of signing as one file of C, optional, equal to them to the bit."""
