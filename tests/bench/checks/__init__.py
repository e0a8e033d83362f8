"""The benchmarks themselves: figures, measurements and peers."""
