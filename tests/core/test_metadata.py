"""The active table: out as Polars, in as any Arrow stream, all of it checked before it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dataset_rt import (
    CachedDataset,
    CacheInput,
    CorruptCacheError,
    DatasetRuntime,
    MetadataTableError,
    ReaderConfig,
    WeightError,
)

if TYPE_CHECKING:
    from pathlib import Path

Open = Callable[..., CachedDataset]


def numbers_in(dataset: CachedDataset) -> list[int]:
    return [sample.metadata["number"] for sample in dataset]


def test_the_table_has_identity_stored_columns_and_weight(numbers: CachedDataset) -> None:
    table = numbers.get_metadata()
    assert dict(table.schema) == {
        "cache_id": pl.Int64,
        "sample_id": pl.Int64,
        "number": pl.Int64,
        "half": pl.Float64,
        "label": pl.String,
        "even": pl.Boolean,
        "weight": pl.Float64,
    }
    assert table["cache_id"].unique().to_list() == [numbers.caches[0].id]
    assert table["sample_id"].to_list() == list(range(20))
    assert table["weight"].to_list() == [1.0] * 20
    assert table["half"].to_list()[:4] == [0.0, 0.5, None, 1.5]
    assert table["label"].to_list()[:3] == ["läbel 0", "läbel 1", None]
    assert table["even"].to_list()[:3] == [True, False, True]
    assert table["half"].null_count() == table["label"].null_count() == 6


def test_an_untouched_table_changes_no_draw(open_numbers: Open) -> None:
    dataset = open_numbers(seed=4)
    before = dataset.draws(0, 200).tolist()
    dataset.update_metadata(dataset.get_metadata())
    assert dataset.draws(0, 200).tolist() == before


def test_a_column_of_only_none_is_a_null_column(
    runtime: DatasetRuntime,
    tmp_path: Path,
    write: Callable[..., Path],
    list_source: Callable[..., Any],
) -> None:
    records = [CacheInput(b"", {"x": None, "y": number}) for number in range(3)]
    dataset = runtime.cached_dataset(write(list_source("nothing", records), tmp_path))
    assert dataset.get_metadata().schema["x"] == pl.Null
    dataset.update_metadata(dataset.get_metadata().filter(pl.col("y") > 0))
    assert dataset.get_metadata()["y"].to_list() == [1, 2]
    assert dataset.get_metadata()["x"].to_list() == [None, None]
    assert dataset.get_metadata().schema["x"] == pl.Null
    table = dataset.get_metadata().with_columns(x=pl.lit(True))
    dataset.update_metadata(table)
    assert dataset.get_metadata().schema["x"] == pl.Boolean


def test_an_added_column_of_only_none(numbers: CachedDataset) -> None:
    table = numbers.get_metadata().with_columns(
        note=None, flag=pl.lit(None, dtype=pl.Boolean), number=pl.col("number")
    )
    numbers.update_metadata(table)
    assert numbers.get_metadata()["note"].null_count() == 20
    assert numbers.get_metadata().schema["note"] == pl.Null
    assert numbers.get_metadata().schema["flag"] == pl.Boolean


def test_a_stored_column_that_became_all_null_keeps_its_type(numbers: CachedDataset) -> None:
    numbers.update_metadata(numbers.get_metadata().with_columns(half=None, number=None))
    assert numbers.get_metadata()["half"].null_count() == 20
    assert numbers.get_metadata().schema["half"] == pl.Float64
    assert numbers.get_metadata().schema["number"] == pl.Int64


def test_a_stream_that_cannot_be_read_is_refused(numbers: CachedDataset) -> None:
    class Broken:
        def __arrow_c_stream__(self, _requested_schema: object = None) -> object:
            return "no capsule"

    with pytest.raises(MetadataTableError, match="table cannot be read as an Arrow stream"):
        numbers.update_metadata(Broken())


class TestEdit:
    """Rows that are missing leave, rows that repeat repeat, order and weights matter."""

    def test_a_filter_leaves_the_rest_out(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata()
        numbers.update_metadata(table.filter(pl.col("even")))
        assert len(numbers) == len(numbers.rows) == 10
        assert set(numbers_in(numbers)) <= set(range(0, 20, 2))
        assert numbers.get_metadata().equals(table.filter(pl.col("even")))

    def test_repeated_rows_repeat_and_order_counts(self, numbers_in_order: CachedDataset) -> None:
        table = numbers_in_order.get_metadata()
        numbers_in_order.update_metadata(table[[5, 5, 0, 19, 5]])
        assert numbers_in_order.rows[:].metadata["number"].tolist() == [5, 5, 0, 19, 5]
        assert numbers_in(numbers_in_order) == [5, 5, 0, 19, 5]
        assert numbers_in_order.get_metadata()["sample_id"].to_list() == [5, 5, 0, 19, 5]

    def test_sorting_orders_sequential_reads(self, numbers_in_order: CachedDataset) -> None:
        table = numbers_in_order.get_metadata()
        numbers_in_order.update_metadata(table.sort("number", descending=True))
        assert numbers_in(numbers_in_order) == list(range(19, -1, -1))

    def test_weights_in_the_table_are_the_weights(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata()
        numbers.update_metadata(table.with_columns(weight=(pl.col("number") == 7).cast(pl.Float64)))
        assert numbers_in(numbers) == [7] * 20
        assert numbers.get_metadata()["weight"].to_list() == [
            float(number == 7) for number in range(20)
        ]

    def test_more_rows_than_samples(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata()
        numbers.update_metadata(pl.concat([table] * 5))
        assert len(numbers) == len(numbers.rows) == 100

    def test_extra_columns_stay_after_the_weight(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata()
        split = pl.Series("split", ["train", "test"] * 10)
        edited = table.with_columns(split, score=pl.col("number") * 0.1)
        numbers.update_metadata(edited)
        again = numbers.get_metadata()
        assert again.columns[-3:] == ["weight", "split", "score"]
        assert again.equals(edited)
        numbers.update_metadata(again.filter(pl.col("split") == "train"))
        assert numbers.get_metadata().columns[-2:] == ["split", "score"]
        assert len(numbers) == 10

    def test_columns_may_stand_in_another_order(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata()
        numbers.update_metadata(table.select(reversed(table.columns)).head(3))
        assert numbers.get_metadata().equals(table.head(3))

    def test_changed_values_live_in_the_table_only(self, numbers_in_order: CachedDataset) -> None:
        table = numbers_in_order.get_metadata()
        numbers_in_order.update_metadata(table.with_columns(number=pl.col("number") + 1000))
        assert numbers_in_order.get_metadata()["number"].to_list() == list(range(1000, 1020))
        assert numbers_in(numbers_in_order) == list(range(20))
        batch = numbers_in_order.rows[[3, 4]]
        assert batch.metadata["number"].tolist() == [3, 4]
        assert numbers_in_order.get_metadata()["number"].gather(batch.rows).to_list() == [
            1003,
            1004,
        ]

    def test_an_edit_restarts_the_stream(self, numbers: CachedDataset) -> None:
        numbers.set_epoch_len(3)
        list(numbers)
        numbers.update_metadata(numbers.get_metadata())
        assert len(numbers) == 20
        assert numbers.state_dict()["position"] == 0
        assert numbers_in(numbers) == numbers.draws(0, 20).tolist()

    def test_live_iterators_keep_their_table(self, numbers_in_order: CachedDataset) -> None:
        samples = iter(numbers_in_order)
        batches = numbers_in_order.iter_batches(5)
        next(samples)
        numbers_in_order.update_metadata(numbers_in_order.get_metadata().head(2))
        numbers_in_order.set_weights([0.0, 1.0])
        assert numbers_in(samples) == list(range(1, 20))  # type: ignore[arg-type]
        rows = [number for batch in batches for number in batch.metadata["number"].tolist()]
        assert rows == list(range(20))

    def test_several_caches_keep_their_identity(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        write: Callable[..., Path],
        list_source: Callable[..., Any],
    ) -> None:
        paths = [
            write(
                list_source(name, [CacheInput(name.encode(), {"number": n}) for n in range(3)]),
                tmp_path,
            )
            for name in ("a", "b")
        ]
        first = runtime.cached_dataset(paths)
        table = first.get_metadata()[[4, 0]]
        swapped = runtime.cached_dataset(
            list(reversed(paths)), reader_config=ReaderConfig(shuffle=False)
        )
        swapped.update_metadata(table)
        assert [(sample.data, sample.sample_id) for sample in swapped] == [(b"b", 1), (b"a", 0)]


class TestFormats:
    """Anything with __arrow_c_stream__ is a table."""

    @pytest.mark.parametrize(
        "convert",
        [
            lambda table: table,
            lambda table: table.rechunk().to_arrow(),
            lambda table: table.to_arrow(compat_level=pl.CompatLevel.oldest()),
            lambda table: pa.table(table).to_reader(max_chunksize=3),
            lambda table: table.to_pandas(use_pyarrow_extension_array=True),
            lambda table: pl.concat([table.head(5), table.tail(15)], rechunk=False),
            lambda table: table.with_columns(pl.col("label").cast(pl.Categorical)),
        ],
        ids=["polars", "pyarrow", "old arrow", "reader", "pandas", "chunks", "categorical"],
    )
    def test_a_table_of_any_library(
        self, numbers_in_order: CachedDataset, convert: Callable[[pl.DataFrame], Any]
    ) -> None:
        table = numbers_in_order.get_metadata().reverse()
        numbers_in_order.update_metadata(convert(table))
        assert numbers_in(numbers_in_order) == list(range(19, -1, -1))
        assert numbers_in_order.get_metadata()["label"].to_list() == table["label"].to_list()

    def test_a_filtered_pandas_frame_adds_no_index_column(
        self, numbers_in_order: CachedDataset
    ) -> None:
        frame = numbers_in_order.get_metadata().to_pandas()
        numbers_in_order.update_metadata(frame[frame["number"].isin([3, 4, 11])])
        assert numbers_in(numbers_in_order) == [3, 4, 11]
        assert numbers_in_order.get_metadata().columns[-1] == "weight"

    def test_a_pandas_frame_with_an_added_column(self, numbers_in_order: CachedDataset) -> None:
        frame = numbers_in_order.get_metadata().to_pandas()
        frame["is_chosen"] = frame["number"] > 17
        assert isinstance(frame, pd.DataFrame)
        numbers_in_order.update_metadata(frame)
        assert numbers_in_order.get_metadata()["is_chosen"].sum() == 2

    def test_integers_that_pandas_made_floats_for_the_sake_of_nulls(
        self, numbers_in_order: CachedDataset
    ) -> None:
        expected = numbers_in_order.get_metadata().with_columns(
            number=pl.when(pl.col("number") != 7).then(pl.col("number"))
        )
        frame = expected.to_pandas()
        assert frame["number"].dtype == "float64"
        numbers_in_order.update_metadata(frame)
        assert numbers_in_order.get_metadata()["number"].equals(expected["number"])

    @pytest.mark.parametrize("value", [2.5, 2.0**53 + 2, float("inf"), -1e300])
    def test_floats_that_are_no_integers_are_refused(
        self, numbers: CachedDataset, value: float
    ) -> None:
        number = pl.when(pl.col("number") == 11).then(pl.lit(value)).otherwise(pl.col("number"))
        table = numbers.get_metadata().with_columns(number=number)
        with pytest.raises(MetadataTableError, match=r"\"number\" are no whole(.|\n)*row 11: "):
            numbers.update_metadata(table)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda _table: None, "table is None, expected a table"),
            (lambda table: table.to_dict(as_series=False), "table is a dict, expected a table"),
            (lambda table: table.rows(), "table is a list, expected a table"),
            (lambda table: table.to_numpy(), "table is a ndarray"),
            (lambda table: table.lazy(), r"table is a LazyFrame.*\n.*hint: call .collect\(\)"),
            (lambda _table: pl.DataFrame, "table is a type"),
        ],
    )
    def test_what_is_no_table_is_refused(
        self, numbers: CachedDataset, make: Callable[[pl.DataFrame], Any], message: str
    ) -> None:
        with pytest.raises(MetadataTableError, match=message):
            numbers.update_metadata(make(numbers.get_metadata()))


def drop(name: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda table: table.drop(name)


def changed(**columns: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda table: table.with_columns(**columns)


class TestRefusal:
    """A table that is refused leaves the old one, the stream and the cursor as they were."""

    @pytest.fixture(autouse=True)
    def _nothing_changes(self, numbers: CachedDataset) -> Iterator[None]:
        numbers.update_metadata(numbers.get_metadata().head(15))
        numbers.set_epoch_len(6)
        list(numbers)
        state = numbers.state_dict()
        table = numbers.get_metadata()
        draws = numbers.draws(0, 100).tolist()
        yield
        assert len(numbers) == 6
        assert numbers.state_dict() == state
        assert numbers.get_metadata().equals(table)
        assert numbers.draws(0, 100).tolist() == draws

    @pytest.mark.parametrize(
        ("edit", "words"),
        [
            (drop("cache_id"), ["cache_id"]),
            (drop("sample_id"), ["sample_id"]),
            (drop("weight"), ["weight"]),
            (drop("label"), ["label"]),
            (lambda table: table.head(0), ["row"]),
            (changed(number=pl.col("number").cast(pl.String)), ["number"]),
            (changed(number=pl.col("number") * 0.5), ["number"]),
            (changed(half=pl.col("half").cast(pl.String)), ["half"]),
            (changed(label=pl.lit(5)), ["label"]),
            (changed(even=pl.col("number")), ["even"]),
            (changed(cache_id=pl.col("cache_id").cast(pl.String)), ["cache_id"]),
            (changed(cache_id=pl.lit(None, dtype=pl.Int64)), ["cache_id", "null"]),
            (
                changed(sample_id=pl.when(pl.col("number") != 4).then(pl.col("sample_id"))),
                ["sample_id", "null", "4"],
            ),
            (changed(sample_id=pl.col("sample_id") + 18), ["20"]),
            (changed(sample_id=-pl.col("sample_id") - 1), ["-1"]),
            (changed(cache_id=pl.col("cache_id") - 1), ["cache"]),
            (changed(weight=pl.lit("heavy")), ["weight"]),
            (
                changed(weight=pl.when(pl.col("number") != 9).then(1.0)),
                ["weight", "null", "row 9"],
            ),
        ],
    )
    def test_a_wrong_table(
        self,
        numbers: CachedDataset,
        edit: Callable[[pl.DataFrame], pl.DataFrame],
        words: list[str],
    ) -> None:
        with pytest.raises(MetadataTableError) as caught:
            numbers.update_metadata(edit(numbers.get_metadata()))
        for word in words:
            assert word in str(caught.value)

    def test_a_column_name_that_repeats(self, numbers: CachedDataset) -> None:
        table = numbers.get_metadata().to_arrow()
        with pytest.raises(MetadataTableError, match="number"):
            numbers.update_metadata(table.append_column("number", table.column("number")))

    @pytest.mark.parametrize(
        ("weight", "word"),
        [(-1.0, "-1"), (float("nan"), "nan"), (float("inf"), "inf")],
    )
    def test_a_wrong_weight_names_its_row(
        self, numbers: CachedDataset, weight: float, word: str
    ) -> None:
        expression = (
            pl.when(pl.col("number") == 9).then(pl.lit(weight, dtype=pl.Float64)).otherwise(1.0)
        )
        with pytest.raises(WeightError) as caught:
            numbers.update_metadata(numbers.get_metadata().with_columns(weight=expression))
        assert "9" in str(caught.value)
        assert word in str(caught.value).lower()

    def test_weights_that_are_all_zero(self, numbers: CachedDataset) -> None:
        with pytest.raises(WeightError, match=r"zero|0"):
            numbers.update_metadata(numbers.get_metadata().with_columns(weight=0.0))


def test_damage_deep_in_the_metadata_is_noticed_where_it_is_read(
    runtime: DatasetRuntime,
    tmp_path: Path,
    write: Callable[..., Path],
    list_source: Callable[..., Any],
) -> None:
    records = [CacheInput(b"", {"label": f"label {number}"}) for number in range(30_000)]
    path = write(list_source("damaged", records), tmp_path)
    stored = path / "metadata.arrow"
    content = bytearray(stored.read_bytes())
    content[content.index(b"label 25000")] ^= 1
    stored.write_bytes(content)
    dataset = runtime.cached_dataset(path, reader_config=ReaderConfig(shuffle=False))
    for read in (
        dataset.get_metadata,
        lambda: list(dataset),
        lambda: dataset.get_item(dataset.caches[0].id, 25_000),
        lambda: dataset.rows[[25_000]].metadata["label"],
    ):
        with pytest.raises(CorruptCacheError, match=r"metadata\.arrow"):
            read()


@pytest.mark.parametrize(
    "added",
    [
        pl.Series(["ä", None, "c"]),
        pl.Series(["ä", None, "c"], dtype=pl.Categorical),
        pl.Series([1, None, 3]),
        pl.Series([1, None, 3], dtype=pl.Int8),
        pl.Series([0.5, None, 1.5]),
        pl.Series([0.5, None, 1.5], dtype=pl.Float32),
        pl.Series([True, None, False]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_added_columns_of_any_width_become_numpy_columns(
    runtime: DatasetRuntime,
    tmp_path: Path,
    list_source: Any,
    write: Callable[..., Path],
    added: pl.Series,
) -> None:
    path = write(list_source("s", [CacheInput(b"", {})] * 3), tmp_path)
    dataset = runtime.cached_dataset(path)
    dataset.update_metadata(dataset.get_metadata().with_columns(added=added))
    found, is_null = dataset._native.metadata_table().column("added")
    assert is_null is not None
    assert is_null.tolist() == [False, True, False]
    assert [found[0], found[2]] == [added[0], added[2]]
