"""The dataset: the stream, its cursor, single samples, and what happens after close."""

from __future__ import annotations

import copy
import gc
import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dataset_rt import (
    CachedDataset,
    CachedSample,
    ConfigError,
    CorruptCacheError,
    DatasetClosedError,
    DatasetRuntime,
    ReaderConfig,
    SampleNotFoundError,
)

if TYPE_CHECKING:
    from pathlib import Path

Open = Callable[..., CachedDataset]


def rows_of(samples: Any) -> list[int]:
    return [sample.metadata["number"] for sample in samples]


@pytest.mark.parametrize(
    "options",
    [{"shuffle": False}, {"seed": 5}, {"seed": 5, "replacement": False}],
    ids=["sequential", "weighted", "permutation"],
)
class TestStream:
    """Iterators are consecutive windows of one stream, in every order."""

    def test_passes_are_consecutive_windows(
        self, open_numbers: Open, options: dict[str, Any]
    ) -> None:
        dataset = open_numbers(**options)
        passes = [rows_of(dataset) for _ in range(3)]
        assert passes == dataset.draws(0, 60).reshape(3, 20).tolist()

    def test_draws_do_not_depend_on_what_was_read(
        self, open_numbers: Open, options: dict[str, Any]
    ) -> None:
        dataset = open_numbers(**options)
        before = dataset.draws(5, 50)
        list(dataset)
        np.testing.assert_array_equal(dataset.draws(5, 50), before)
        np.testing.assert_array_equal(open_numbers(**options).draws(7, 20), before[2:15])

    def test_an_iterator_takes_its_window_when_it_is_created(
        self, open_numbers: Open, options: dict[str, Any]
    ) -> None:
        dataset = open_numbers(**options)
        first = iter(dataset)
        next(first)
        second = iter(dataset)
        assert rows_of(second) == dataset.draws(20, 40).tolist()
        assert rows_of(first) == dataset.draws(1, 20).tolist()

    def test_epoch_length_changes_later_windows_only(
        self, open_numbers: Open, options: dict[str, Any]
    ) -> None:
        dataset = open_numbers(**options)
        first = iter(dataset)
        dataset.set_epoch_len(7)
        assert len(dataset) == 7
        assert rows_of(dataset) == dataset.draws(20, 27).tolist()
        dataset.set_epoch_len(50)
        assert rows_of(dataset) == dataset.draws(27, 77).tolist()
        assert rows_of(first) == dataset.draws(0, 20).tolist()

    def test_an_iterator_knows_its_position(
        self, open_numbers: Open, options: dict[str, Any]
    ) -> None:
        dataset = open_numbers(**options)
        list(dataset)
        iterator = iter(dataset)
        assert iterator.position == 20
        next(iterator)
        assert iterator.position == 21
        assert iterator.__length_hint__() == 19
        list(iterator)
        assert iterator.position == 40
        with pytest.raises(StopIteration):
            next(iterator)

    def test_batches_are_the_same_draws(self, open_numbers: Open, options: dict[str, Any]) -> None:
        dataset = open_numbers(**options)
        iterator = dataset.iter_batches(6)
        assert iterator.position == 0
        batches = list(iterator)
        assert iterator.position == 20
        assert [len(batch) for batch in batches] == [6, 6, 6, 2]
        rows = np.concatenate([batch.rows for batch in batches])
        np.testing.assert_array_equal(rows, dataset.draws(0, 20))
        positions = np.concatenate([batch.positions for batch in batches])
        np.testing.assert_array_equal(positions, np.arange(20))
        assert rows_of(dataset) == dataset.draws(20, 40).tolist()


def test_sequential_reads_are_in_table_order(numbers_in_order: CachedDataset) -> None:
    assert rows_of(numbers_in_order) == list(range(20))
    assert rows_of(numbers_in_order) == list(range(20))


def test_a_permutation_holds_every_row_once_per_pass(open_numbers: Open) -> None:
    dataset = open_numbers(seed=1, replacement=False)
    passes = [rows_of(dataset) for _ in range(3)]
    assert [sorted(rows) for rows in passes] == [list(range(20))] * 3
    assert passes[0] != passes[1]


def test_the_seed_decides_the_draws(open_numbers: Open) -> None:
    draws = [open_numbers(seed=seed).draws(0, 100).tolist() for seed in (1, 1, 2, 2**64 - 1)]
    assert draws[0] == draws[1]
    assert len({tuple(rows) for rows in draws}) == 3


def test_every_sample_is_what_was_written(
    numbers_in_order: CachedDataset, numbers_path: Path
) -> None:
    samples = list(numbers_in_order)
    (cache,) = numbers_in_order.caches
    assert (cache.name, cache.path, cache.samples) == ("numbers", numbers_path, 20)
    assert all(type(sample) is CachedSample for sample in samples)
    for number, sample in enumerate(samples):
        assert sample.data == f"payload {number} ".encode() * (number % 4)
        assert sample.cache_id == cache.id
        assert sample.sample_id == number
        has_values = number % 3 != 2
        assert sample.metadata == {
            "number": number,
            "half": number / 2 if has_values else None,
            "label": f"läbel {number}" if has_values else None,
            "even": number % 2 == 0,
        }


def test_a_small_prefetch_changes_nothing(open_numbers: Open) -> None:
    assert rows_of(open_numbers(seed=3, prefetch_size=1)) == rows_of(open_numbers(seed=3))


def test_an_abandoned_iterator_disturbs_nothing(numbers: CachedDataset) -> None:
    for sample in numbers:
        assert sample.data is not None
        break
    gc.collect()
    assert rows_of(numbers) == numbers.draws(20, 40).tolist()


def test_weighted_draws_follow_the_weights(numbers: CachedDataset) -> None:
    numbers.set_weights([number % 2 for number in range(20)])
    counts = Counter(numbers.draws(0, 10_000).tolist())
    assert sorted(counts) == list(range(1, 20, 2))
    assert all(850 < count < 1150 for count in counts.values())


def test_threads_share_one_stream(numbers: CachedDataset) -> None:
    with ThreadPoolExecutor(max_workers=4) as pool:
        windows = list(pool.map(lambda _: rows_of(numbers), range(16)))
    assert sorted(windows) == sorted(numbers.draws(0, 320).reshape(16, 20).tolist())


class TestDamage:
    """A payload that changed on disk is noticed on every path, unless checks are off."""

    @pytest.fixture
    def damaged(self, numbers_path: Path, tmp_path: Path) -> Path:
        copied = tmp_path / "numbers"
        shutil.copytree(numbers_path, copied)
        shard = copied / "shards" / "000000.bin"
        content = bytearray(shard.read_bytes())
        content[content.index(b"payload 7")] ^= 1
        shard.write_bytes(content)
        return copied

    @pytest.mark.parametrize(
        "read",
        [
            list,
            lambda dataset: dataset.rows[7],
            lambda dataset: dataset.rows[[6, 7]].buffer,
            lambda dataset: dataset.rows[[6, 7]].data,
            lambda dataset: dataset.rows[[6, 7]].samples,
            lambda dataset: dataset.get_item(dataset.caches[0].id, 7),
            lambda dataset: [batch.offsets for batch in dataset.iter_batches(3)],
        ],
    )
    def test_damage_names_shard_and_sample(
        self,
        runtime: DatasetRuntime,
        damaged: Path,
        read: Callable[[CachedDataset], object],
    ) -> None:
        dataset = runtime.cached_dataset(damaged, reader_config=ReaderConfig(shuffle=False))
        assert dataset.rows[6].data == b"payload 6 payload 6 "
        with pytest.raises(CorruptCacheError, match=r"sample 7 .*000000\.bin"):
            read(dataset)

    def test_checks_can_be_switched_off(self, runtime: DatasetRuntime, damaged: Path) -> None:
        config = ReaderConfig(shuffle=False, verify_reads=False)
        dataset = runtime.cached_dataset(damaged, reader_config=config)
        assert dataset.rows[7].data == b"qayload 7 payload 7 payload 7 "


class TestGetItem:
    """Samples by identity, whether drawn or not."""

    def test_an_identity_names_one_sample(self, numbers: CachedDataset) -> None:
        cache_id = numbers.caches[0].id
        sample = numbers.get_item(cache_id, 7)
        assert (sample.metadata["number"], sample.sample_id) == (7, 7)
        assert numbers.get_item(np.int64(cache_id), np.uint8(7)) == sample

    @pytest.mark.parametrize("collect", [list, tuple, iter, np.array])
    def test_several_come_in_the_order_asked_for(
        self, numbers: CachedDataset, collect: Callable[[Any], Any]
    ) -> None:
        cache_id = numbers.caches[0].id
        ids = [(cache_id, sample_id) for sample_id in (5, 0, 19, 5)]
        assert rows_of(numbers.get_items(collect(ids))) == [5, 0, 19, 5]

    def test_none_are_none(self, numbers: CachedDataset) -> None:
        assert numbers.get_items([]) == []
        assert numbers.get_items(np.empty((0, 2), dtype=np.int64)) == []

    def test_rows_outside_the_active_table_can_be_read(self, numbers: CachedDataset) -> None:
        numbers.update_metadata(numbers.get_metadata().head(1))
        assert numbers.get_item(numbers.caches[0].id, 19).metadata["number"] == 19

    @pytest.mark.parametrize(("cache_offset", "sample_id"), [(0, 20), (0, -1), (1, 0), (0, 2**62)])
    def test_unknown_identities_are_not_found(
        self, numbers: CachedDataset, cache_offset: int, sample_id: int
    ) -> None:
        cache_id = numbers.caches[0].id + cache_offset
        wrong = sample_id if cache_offset == 0 else cache_id
        with pytest.raises(SampleNotFoundError) as caught:
            numbers.get_item(cache_id, sample_id)
        assert str(wrong) in str(caught.value)
        with pytest.raises(KeyError):
            numbers.get_items([(numbers.caches[0].id, 0), (cache_id, sample_id)])

    @pytest.mark.parametrize(
        ("cache_id", "sample_id", "message"),
        [
            ("x", 0, "cache_id is 'x', expected an integer"),
            (0, 1.0, "sample_id is 1.0, expected an integer"),
            (0, None, "sample_id is None"),
            (True, 0, "cache_id is True"),
            (2**63, 0, "cache_id is 9223372036854775808"),
        ],
    )
    def test_wrong_identities_are_refused(
        self, numbers: CachedDataset, cache_id: Any, sample_id: Any, message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            numbers.get_item(cache_id, sample_id)

    @pytest.mark.parametrize(
        "ids",
        [None, 5, "ab", [1, 2], [(1, 2, 3)], [(1.0, 2)], [("a", "b")], [(1, 2), (3,)], {1: 2}],
    )
    def test_what_is_no_pairs_is_refused(self, numbers: CachedDataset, ids: Any) -> None:
        with pytest.raises(ConfigError, match=r"ids .*expected pairs of cache id and sample id"):
            numbers.get_items(ids)


class TestArguments:
    """Each wrong argument is named."""

    @pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None, 2**63])
    def test_epoch_length(self, numbers: CachedDataset, value: Any) -> None:
        with pytest.raises(ConfigError, match=r"epoch_len is .*, expected an integer from 1"):
            numbers.set_epoch_len(value)
        assert len(numbers) == 20

    @pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None])
    def test_batch_size(self, numbers: CachedDataset, value: Any) -> None:
        with pytest.raises(ConfigError, match=r"batch_size is .*, expected an integer from 1"):
            numbers.iter_batches(value)
        assert numbers.state_dict()["position"] == 0

    @pytest.mark.parametrize(
        ("start", "stop", "message"),
        [
            (-1, 5, "start is -1"),
            (0, -5, "stop is -5"),
            (0, 1.5, "stop is 1.5"),
            (False, 5, "start is False"),
            (5, 4, "stop is 4, expected at least start, which is 5"),
        ],
    )
    def test_draws(self, numbers: CachedDataset, start: Any, stop: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            numbers.draws(start, stop)

    def test_draws_of_nothing(self, numbers: CachedDataset) -> None:
        assert numbers.draws(5, 5).shape == (0,)
        assert numbers.draws(0, 5).dtype == np.int64


class TestClose:
    """After close every call says so."""

    @pytest.mark.parametrize(
        "call",
        [
            iter,
            len,
            lambda dataset: dataset.set_epoch_len(5),
            lambda dataset: dataset.get_item(1, 1),
            lambda dataset: dataset.get_items([(1, 1)]),
            lambda dataset: dataset.iter_batches(5),
            lambda dataset: dataset.rows[0],
            lambda dataset: dataset.rows[:3],
            lambda dataset: len(dataset.rows),
            lambda dataset: dataset.draws(0, 5),
            lambda dataset: dataset.caches,
            lambda dataset: dataset.get_metadata(),
            lambda dataset: dataset.set_weights([1.0]),
            lambda dataset: dataset.state_dict(),
            lambda dataset: dataset.dump_config("unused.json"),
        ],
    )
    def test_every_call_is_refused(
        self, numbers: CachedDataset, call: Callable[[CachedDataset], object]
    ) -> None:
        numbers.close()
        with pytest.raises(DatasetClosedError, match="closed"):
            call(numbers)

    def test_edits_and_states_are_refused(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata()
        state = numbers.state_dict()
        numbers.close()
        with pytest.raises(DatasetClosedError):
            numbers.update_metadata(table)
        with pytest.raises(DatasetClosedError):
            numbers.load_state_dict(state)

    def test_closing_twice_is_fine(self, numbers: CachedDataset) -> None:
        numbers.close()
        numbers.close()
        assert repr(numbers) == "CachedDataset(closed)"

    def test_a_with_block_closes(self, numbers: CachedDataset) -> None:
        with numbers as same:
            assert same is numbers
            assert len(same) == 20
        with pytest.raises(DatasetClosedError):
            len(numbers)

    def test_what_was_read_stays(self, numbers_in_order: CachedDataset) -> None:
        sample = numbers_in_order.rows[1]
        batch = numbers_in_order.rows[:4]
        numbers_in_order.close()
        assert sample.data == b"payload 1 "
        assert batch.data[1] == b"payload 1 "
        assert bytes(batch.views[1]) == b"payload 1 "


def test_a_dataset_is_not_pickled_or_copied(numbers: CachedDataset) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be pickled.*\n.*dump_config.*from_config"):
            attempt(numbers)


def test_the_repr_says_what_is_drawn(open_numbers: Open) -> None:
    assert repr(open_numbers(seed=3)) == (
        "CachedDataset(caches=['numbers'], rows=20, epoch_len=20, seed=3, order='weighted')"
    )
