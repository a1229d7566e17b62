"""What is measured: one file per case, with what to set up, run and check, and no clock."""
