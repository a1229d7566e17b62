"""A child forked after the dataset was used reads on its own threads, and never hangs."""

from __future__ import annotations

import functools
import multiprocessing
import operator
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from dataset_rt import CachedDataset

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks"),
    # Python 3.12 and later warn of just what is tested here.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def read(dataset: CachedDataset, answers: Connection) -> None:
    rows = [sample.metadata["number"] for sample in dataset]
    batches = [batch.rows.tolist() for batch in dataset.iter_batches(8)]
    answers.send((rows, functools.reduce(operator.iadd, batches, [])))


def test_a_forked_child_reads_what_the_parent_would(numbers: CachedDataset) -> None:
    list(numbers)
    context = multiprocessing.get_context("fork")
    answers, end_of_child = context.Pipe(duplex=False)
    child = context.Process(target=read, args=(numbers, end_of_child))
    child.start()
    end_of_child.close()
    try:
        assert answers.poll(60), "the child hangs"
        rows, batches = answers.recv()
    finally:
        child.kill()
        child.join()
    assert rows == numbers.draws(20, 40).tolist()
    assert batches == numbers.draws(40, 60).tolist()
    assert [sample.metadata["number"] for sample in numbers] == numbers.draws(20, 40).tolist()
