"""Benchmarks of DatasetRT, side by side with what people would write by hand.

Run ``python -m dataset_rt_bench --quick`` for a first impression of a machine.
"""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("dataset-rt-bench")
