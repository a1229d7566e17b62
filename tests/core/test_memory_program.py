"""The program that tools watch memory with runs, and finds everything as it should be."""

from __future__ import annotations

from tests.core import memory_program


def test_all_memory_that_is_handed_out_can_be_used() -> None:
    memory_program.main()
