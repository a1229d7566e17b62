"""Lets ``python -m dataset_rt.cli`` run the command line."""

import sys

from dataset_rt.cli import main

if __name__ == "__main__":
    sys.exit(main())
