"""The command line ``dataset-rt``: looks at caches, checks them and clears away dead builds."""

from dataset_rt.cli.entry import main

__all__ = ["main"]
