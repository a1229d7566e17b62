"""What people would write by hand instead: a NumPy memmap, and an LMDB environment."""
