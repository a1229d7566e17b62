"""What people would use instead: a memory map or LMDB by hand, and the libraries of others."""
