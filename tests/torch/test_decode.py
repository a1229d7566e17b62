"""``decode="arrays"``: payloads of ``pack_arrays`` become dicts of tensors, natively."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from dataset_rt import (
    CachedDataset,
    CacheInput,
    CacheWriteSuccess,
    DatasetRuntime,
    InvalidRecordError,
    _core,
    pack_arrays,
    unpack_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUM_SAMPLES = 40


class Images:
    """A source of packed images, of which one may be odd."""

    def __init__(self, name: str, odd: int | None = None) -> None:
        self.name = name
        self.odd = odd

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(NUM_SAMPLES):
            height = 5 if number == self.odd else 4
            image = np.random.default_rng(number).random((3, height, 6), dtype=np.float32)
            yield CacheInput(pack_arrays({"image": image, "label": np.int64(number)}), {})


@pytest.fixture
def dataset_of(tmp_path: Path) -> Any:
    def make(source: Images | OfAllTypes | Ones) -> CachedDataset:
        runtime = DatasetRuntime(num_workers=2)
        (result,) = runtime.write_cache(source, tmp_path)
        assert isinstance(result, CacheWriteSuccess)
        return runtime.cached_dataset(result.path)

    return make


def by_hand(sample: Any) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(array) for name, array in unpack_arrays(sample.data).items()}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_are_those_of_unpacking_and_collating_by_hand(
    dataset_of: Any, num_workers: int
) -> None:
    dataset = dataset_of(Images("images"))
    options: dict[str, Any] = {"batch_size": 7, "seed": 3, "multiprocessing_context": "forkserver"}
    native = dataset.to_torch_dataloader(decode="arrays", num_workers=num_workers, **options)
    expected = dataset.to_torch_dataloader(sample_transform_fn=by_hand, num_workers=0, **options)
    for _ in range(2):
        for found, wanted in zip(native, expected, strict=True):
            assert list(found) == list(wanted)
            for name in wanted:
                assert found[name].dtype == wanted[name].dtype
                assert torch.equal(found[name], wanted[name])


ALL_TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.uint32,
    torch.int32,
    torch.uint64,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.bfloat16,
]


def expected_of(dtype: torch.dtype, number: int) -> torch.Tensor:
    return torch.tensor([[number % 2, 1, 0], [1, 0, number % 2]]).to(dtype)


class OfAllTypes:
    """A source of arrays of all types, also of that which NumPy has to be taught."""

    name = "types"

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(10):
            yield CacheInput(
                _core.pack_arrays(
                    [
                        (
                            str(dtype),
                            str(dtype).removeprefix("torch."),
                            [2, 3],
                            bytes(expected_of(dtype, number).view(torch.uint8).numpy()),
                        )
                        for dtype in ALL_TYPES
                    ]
                    + [("empty", "bfloat16", [0, 2], b""), ("scalar", "bfloat16", [], b"\x80\x3f")]
                ),
                {},
            )


def test_arrays_of_all_types_become_tensors_of_that_type(dataset_of: Any) -> None:
    (batch,) = dataset_of(OfAllTypes()).to_torch_dataloader(
        decode="arrays", shuffle=False, batch_size=10, num_workers=0
    )
    for dtype in ALL_TYPES:
        found = batch[str(dtype)]
        expected = torch.stack([expected_of(dtype, number) for number in range(10)])
        assert found.dtype == dtype
        assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
    assert (batch["empty"].dtype, batch["empty"].shape) == (torch.bfloat16, (10, 0, 2))
    assert torch.equal(batch["scalar"], torch.ones(10, dtype=torch.bfloat16))


def test_a_batch_outlives_the_loader_and_the_next_batches(dataset_of: Any) -> None:
    loader = dataset_of(Images("images")).to_torch_dataloader(
        decode="arrays", shuffle=False, batch_size=10, num_workers=0
    )
    batches = list(loader)
    del loader
    labels = torch.cat([batch["label"] for batch in batches])
    assert labels.tolist() == list(range(NUM_SAMPLES))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_arrays_that_differ_are_named_with_and_without_workers(
    dataset_of: Any, num_workers: int
) -> None:
    loader = dataset_of(Images("odd", odd=13)).to_torch_dataloader(
        decode="arrays",
        shuffle=False,
        batch_size=10,
        num_workers=num_workers,
        multiprocessing_context="forkserver",
    )
    batches = iter(loader)
    next(batches)
    with pytest.raises(InvalidRecordError, match=r'array "image" is F32 .* in sample 13 of'):
        next(batches)


class Ones:
    """A source of one packed array of a type that NumPy lacks."""

    def __init__(self, dtype_name: str, one: bytes) -> None:
        self.name = "ones"
        self.payload = _core.pack_arrays([("ones", dtype_name, [2], one * 2)])

    def __iter__(self) -> Iterator[CacheInput]:
        yield CacheInput(self.payload, {})


@pytest.mark.parametrize(
    ("dtype_name", "one"), [("float8_e4m3fn", b"\x38"), ("float8_e5m2", b"\x3c")]
)
def test_float8_arrays_become_tensors_of_that_type(
    dataset_of: Any, dtype_name: str, one: bytes
) -> None:
    (batch,) = dataset_of(Ones(dtype_name, one)).to_torch_dataloader(decode="arrays", num_workers=0)
    assert batch["ones"].dtype is getattr(torch, dtype_name)
    assert batch["ones"].float().tolist() == [[1, 1]]
