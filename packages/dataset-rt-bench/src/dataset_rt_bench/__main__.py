"""Lets ``python -m dataset_rt_bench`` run the command line."""

import sys

from dataset_rt_bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
