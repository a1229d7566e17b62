"""The saved state: plain values that continue the stream, and are refused elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dataset_rt import CachedDataset, CacheInput, DatasetRuntime, StateMismatchError

if TYPE_CHECKING:
    from pathlib import Path

Open = Callable[..., CachedDataset]


def rows_of(dataset: CachedDataset) -> list[int]:
    return [sample.metadata["number"] for sample in dataset]


@pytest.mark.parametrize(
    "options", [{"shuffle": False}, {"seed": 2**64 - 1}, {"seed": 5, "replacement": False}]
)
def test_a_loaded_state_continues_the_stream(open_numbers: Open, options: dict[str, Any]) -> None:
    dataset = open_numbers(**options)
    list(dataset)
    dataset.set_epoch_len(7)
    list(dataset)
    state = json.loads(json.dumps(dataset.state_dict()))
    again = open_numbers(**options)
    again.load_state_dict(state)
    assert rows_of(again) == dataset.draws(27, 47).tolist()
    assert again.state_dict()["position"] == 47


def test_a_state_holds_where_the_next_iterator_begins(numbers: CachedDataset) -> None:
    assert numbers.state_dict()["position"] == 0
    iterator = iter(numbers)
    assert numbers.state_dict()["position"] == 20
    next(iterator)
    assert numbers.state_dict()["position"] == 20
    numbers.load_state_dict({**numbers.state_dict(), "position": 3})
    assert rows_of(numbers) == numbers.draws(3, 23).tolist()


def test_a_state_is_made_of_plain_types(numbers: CachedDataset) -> None:
    def is_plain(value: object) -> bool:
        if type(value) is list:
            return all(is_plain(item) for item in value)
        return type(value) in {int, str}

    numbers.set_weights(np.arange(20.0))
    state = numbers.state_dict()
    assert type(state) is dict
    assert all(type(key) is str and is_plain(value) for key, value in state.items())


def test_the_same_edit_gives_the_same_table(open_numbers: Open) -> None:
    states = []
    for _ in range(2):
        dataset = open_numbers(seed=1)
        dataset.update_metadata(dataset.get_metadata().reverse().head(9))
        dataset.set_weights(np.arange(1, 10))
        list(dataset)
        states.append(dataset.state_dict())
    assert states[0] == states[1]


class TestRefusal:
    """A state of another stream is refused with all differences, and the cursor stays."""

    @pytest.fixture
    def other(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        write: Callable[..., Path],
        list_source: Callable[..., Any],
    ) -> Callable[[str, int], CachedDataset]:
        def open_other(name: str, samples: int) -> CachedDataset:
            records = [CacheInput(b"", {"number": number}) for number in range(samples)]
            return runtime.cached_dataset(write(list_source(name, records), tmp_path))

        return open_other

    def refusal(self, dataset: CachedDataset, state: Any) -> str:
        list(dataset)
        before = dataset.state_dict()
        with pytest.raises(StateMismatchError) as caught:
            dataset.load_state_dict(state)
        assert dataset.state_dict() == before
        return str(caught.value)

    def test_other_seed_and_order(self, open_numbers: Open) -> None:
        message = self.refusal(
            open_numbers(seed=1), open_numbers(seed=2, shuffle=False).state_dict()
        )
        assert "- seed: the state has 2, the dataset 1" in message
        assert "- order: the state has 'sequential', the dataset 'weighted'" in message

    def test_other_number_of_rows(self, open_numbers: Open) -> None:
        saved = open_numbers()
        saved.update_metadata(saved.get_metadata().head(5))
        message = self.refusal(open_numbers(), saved.state_dict())
        assert "- active rows: the state has 5, the dataset 20" in message

    @pytest.mark.parametrize(
        "edit",
        [
            lambda dataset: dataset.set_weights(np.arange(20)),
            lambda dataset: dataset.update_metadata(dataset.get_metadata().reverse()),
        ],
    )
    def test_other_table_of_the_same_size(
        self, open_numbers: Open, edit: Callable[[CachedDataset], None]
    ) -> None:
        saved = open_numbers()
        edit(saved)
        assert "- active table: other rows, weights" in self.refusal(
            open_numbers(), saved.state_dict()
        )

    def test_other_caches(
        self, other: Callable[[str, int], CachedDataset], open_numbers: Open
    ) -> None:
        message = self.refusal(open_numbers(), other("unknown", 20).state_dict())
        assert "- cache 'unknown': missing in the dataset" in message
        assert "- cache 'numbers': not in the state" in message
        message = self.refusal(open_numbers(), other("numbers", 4).state_dict())
        assert "- cache 'numbers': the state has 4 samples, the dataset 20" in message

    def test_other_content_of_the_same_size(
        self, other: Callable[[str, int], CachedDataset], open_numbers: Open
    ) -> None:
        message = self.refusal(open_numbers(), other("numbers", 20).state_dict())
        assert "- active table: " in message

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 99}, "state has version 99, this release reads version 1"),
            ({"sampler_version": 99}, "sampler_version: the state has 99"),
            ({"position": -1}, "state has position -1, expected 0 to"),
            ({"position": 2**63}, "state has position 9223372036854775808"),
            ({"position": "7"}, "its 'position' is '7'"),
            ({"position": True}, "its 'position' is True"),
            ({"seed": None}, "its 'seed' is None"),
            ({"caches": [1]}, r"its 'caches' is [1]"),
        ],
    )
    def test_damaged_states(
        self, numbers: CachedDataset, change: dict[str, Any], message: str
    ) -> None:
        assert message in self.refusal(numbers, {**numbers.state_dict(), **change})

    @pytest.mark.parametrize(
        ("state", "message"),
        [
            (None, "state is None, expected the dict that state_dict() gave"),
            ([], "state is a list, expected the dict"),
            ({}, "it has no 'version', it has no 'sampler_version'"),
        ],
    )
    def test_what_is_no_state(self, numbers: CachedDataset, state: Any, message: str) -> None:
        assert message in self.refusal(numbers, state)
