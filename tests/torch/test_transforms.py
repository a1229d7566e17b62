"""The user's functions: how they reach workers, what they are given, and how they fail."""

from __future__ import annotations

import functools
import pickle
import threading
import traceback
from asyncio import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest
import torch

from dataset_rt import ConfigError, TransformError
from dataset_rt_torch.position_rng import rng_of_position
from tests.torch.loading import FAST_WORKERS, flat, number_of, numbers_of

if TYPE_CHECKING:
    from pathlib import Path

    from dataset_rt import CachedBatch, CachedDataset, CachedSample

WORKER_COUNTS = pytest.mark.parametrize("num_workers", [0, 1])


def make_loader(dataset: CachedDataset, num_workers: int, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 4,
            "samples_per_epoch": 12,
            "shuffle": False,
            "seed": 42,
            "num_workers": num_workers,
            **FAST_WORKERS,
            **options,
        }
    )


class Scale:
    """A transform with state."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, sample: CachedSample) -> int:
        scaled_number: int = number_of(sample) * self.factor
        return scaled_number

    def method(self, sample: CachedSample) -> int:
        return self(sample)


def scaled(factor: int, sample: CachedSample) -> int:
    return number_of(sample) * factor


@dataclass
class Point:
    """What a transform may return with a class of its own."""

    number: int


def closure_over(factor: int) -> Any:
    return lambda sample: number_of(sample) * factor


@WORKER_COUNTS
@pytest.mark.parametrize(
    "transform",
    [
        lambda sample: number_of(sample) * 3,
        closure_over(3),
        Scale(3),
        Scale(3).method,
        functools.partial(scaled, 3),
    ],
    ids=["lambda", "closure", "object", "method", "partial"],
)
def test_any_callable_reaches_the_workers(
    dataset: CachedDataset, num_workers: int, transform: Any
) -> None:
    loader = make_loader(dataset, num_workers, sample_transform_fn=transform)
    assert flat(numbers_of(loader)) == [3 * number for number in range(12)]


def test_a_function_is_taken_as_it_was_at_construction(dataset: CachedDataset) -> None:
    scale = Scale(2)
    loader = make_loader(dataset, 1, sample_transform_fn=scale)
    scale.factor = 100
    assert next(iter(loader)).tolist() == [0, 2, 4, 6]


@WORKER_COUNTS
def test_classes_of_a_module_that_workers_can_import_come_back(
    dataset: CachedDataset, num_workers: int
) -> None:
    loader = make_loader(
        dataset,
        num_workers,
        sample_transform_fn=lambda sample: Point(number_of(sample)),
        collate_fn=list,
    )
    assert next(iter(loader)) == [Point(0), Point(1), Point(2), Point(3)]


def draw_of(sample: CachedSample, rng: np.random.Generator) -> tuple[int, int]:
    return number_of(sample), int(rng.integers(2**62))


def test_rng_gives_each_position_its_own_draws_for_any_topology(dataset: CachedDataset) -> None:
    def draws(num_workers: int, **options: Any) -> list[int]:
        loader = make_loader(dataset, num_workers, sample_transform_fn=draw_of, **options)
        return flat(numbers.tolist() for _, numbers in loader)

    alone = draws(0)
    assert len(set(alone)) == 12
    assert draws(2) == alone
    ranks = [draws(0, batch_size=2, rank=rank, world_size=2) for rank in range(2)]
    assert sorted(ranks[0] + ranks[1]) == sorted(alone)
    assert draws(0, seed=43) != alone


def test_rng_is_pinned(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, 0, sample_transform_fn=draw_of, batch_size=3)
    _, draws = next(iter(loader))
    expected = [
        int(np.random.Generator(np.random.Philox(key=[42, position])).integers(2**62))
        for position in range(3)
    ]
    assert draws.tolist() == expected
    assert expected == PINNED_DRAWS


PINNED_DRAWS = [3782496330830094851, 2046421472878974753, 1968817455619470290]


def spawned_draws(_sample: CachedSample, rng: np.random.Generator) -> list[int]:
    # One by one and together: each time there are others.
    children = [*rng.spawn(1), *rng.spawn(2)]
    return [int(child.integers(2**62)) for child in children]


def test_what_is_spawned_from_rng_depends_on_the_position_alone(dataset: CachedDataset) -> None:
    def draws(num_workers: int) -> list[list[int]]:
        loader = dataset.to_torch_dataloader(
            batch_size=5,
            samples_per_epoch=20,
            seed=1,
            sample_transform_fn=spawned_draws,
            collate_fn=list,
            num_workers=num_workers,
            multiprocessing_context="fork",
        )
        return [sample for batch in loader for sample in batch]

    found = draws(0)
    assert found == draws(2)
    assert len({draw for sample in found for draw in sample}) == 20 * 3


def test_a_generator_of_a_position_is_numpys_with_that_key_and_pickles() -> None:
    rng = rng_of_position(2**64 - 1, 2**63 + 5)
    key = np.array([2**64 - 1, 2**63 + 5], dtype=np.uint64)
    expected = np.random.Generator(np.random.Philox(key=key))
    assert rng.bit_generator.state["state"]["key"].tolist() == key.tolist()
    copy = pickle.loads(pickle.dumps(rng))
    wanted = expected.random(9).tolist()
    assert rng.random(9).tolist() == wanted
    assert copy.random(9).tolist() == wanted
    assert copy.spawn(1)[0].random() == rng.spawn(1)[0].random()


def test_a_partial_that_brings_its_own_rng_keeps_it(dataset: CachedDataset) -> None:
    own = np.random.default_rng(0)
    transform = functools.partial(draw_of, rng=own)
    loader = make_loader(dataset, 0, sample_transform_fn=transform, samples_per_epoch=1)
    (batch,) = loader
    assert batch[1].item() == int(np.random.default_rng(0).integers(2**62))


def supplies_rng(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(sample: CachedSample) -> Any:
        return function(sample, rng=np.random.default_rng(0))

    return wrapper


def hands_on(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def adds_rng(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(sample: CachedSample, rng: np.random.Generator) -> Any:
        return function(sample), int(rng.integers(2**62))

    return wrapper


class Draw(torch.nn.Module):
    """A module that draws; its other arguments come from a partial."""

    def forward(
        self, sample: CachedSample, rng: np.random.Generator, offset: int = 0
    ) -> tuple[int, int]:
        number, draw = draw_of(sample, rng)
        return number + offset, draw


class DrawByCall(torch.nn.Module):
    """A module that is called in its own way."""

    def __call__(self, sample: CachedSample, rng: np.random.Generator) -> tuple[int, int]:
        return draw_of(sample, rng)

    def forward(self, _sample: CachedSample, *, is_padding: bool) -> None: ...


@pytest.mark.parametrize(
    "transform",
    [
        Draw(),
        DrawByCall(),
        functools.partial(Draw(), offset=0),
        hands_on(draw_of),
        adds_rng(number_of),
    ],
    ids=["module", "called-module", "partial-module", "wrapped", "wrapper"],
)
def test_rng_reaches_whatever_takes_it(dataset: CachedDataset, transform: Any) -> None:
    loader = make_loader(dataset, 0, sample_transform_fn=transform, batch_size=3)
    assert next(iter(loader))[1].tolist() == PINNED_DRAWS


@pytest.mark.parametrize(
    "transform", [supplies_rng(draw_of), functools.partial(Draw(), rng=np.random.default_rng(0))]
)
def test_a_wrapper_that_brings_its_own_rng_keeps_it(dataset: CachedDataset, transform: Any) -> None:
    loader = make_loader(dataset, 0, sample_transform_fn=transform, samples_per_epoch=1)
    (batch,) = loader
    assert batch[1].item() == int(np.random.default_rng(0).integers(2**62))


@pytest.mark.parametrize(
    ("argument", "make", "culprit"),
    [
        (
            "sample_transform_fn",
            lambda lock: lambda sample: (lock, sample),
            "captured variable 'lock' of sample_transform_fn (a lock)",
        ),
        (
            "sample_transform_fn",
            lambda lock: functools.partial(scaled, lock),
            "sample_transform_fn.args[0] (a lock)",
        ),
        ("sample_transform_fn", lambda lock: Scale({"a": [lock]}).method, "a lock"),
        ("collate_fn", Scale, "collate_fn.factor (a lock)"),
        ("batch_transform_fn", Scale, "batch_transform_fn.factor (a lock)"),
        ("worker_init_fn", Scale, "worker_init_fn.factor (a lock)"),
    ],
)
def test_a_function_that_cannot_be_sent_is_refused_before_any_work(
    dataset: CachedDataset, tmp_path: Any, argument: str, make: Any, culprit: str
) -> None:
    work_dir = tmp_path / "work"
    with pytest.raises(ConfigError) as caught:
        make_loader(dataset, 1, work_dir=work_dir, **{argument: make(threading.Lock())})
    message = str(caught.value)
    assert message.startswith(f"{argument} cannot be sent to worker processes: ")
    assert culprit in message
    assert not work_dir.exists()


def test_without_workers_nothing_has_to_be_sent(dataset: CachedDataset) -> None:
    lock = threading.Lock()

    def guarded(sample: CachedSample) -> int:
        with lock:
            return number_of(sample)

    assert next(iter(make_loader(dataset, 0, sample_transform_fn=guarded))).tolist() == [0, 1, 2, 3]


class AwkwardError(Exception):
    """Takes other arguments than it keeps."""

    def __init__(self, number: int, *, reason: str) -> None:
        super().__init__(f"{reason} {number}")
        self.number = number


class UnpicklableError(Exception):
    """Holds what cannot be sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class ForeverError(Exception):
    """Cannot be rebuilt at all."""

    def __new__(cls, *args: object, secret: int) -> Self:
        assert secret
        return super().__new__(cls, *args)

    def __init__(self, *args: object, secret: int) -> None:
        super().__init__(*args)
        self.secret = secret


@dataclass(frozen=True)
class FrozenError(Exception):
    """Forbids that anything is set."""

    code: int


class ImmutableError(Exception):
    """Forbids that anything is set, in its own way."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be {value}")


class OwnMessageError(Exception):
    """Says itself how it is shown and pickled, and leaves notes out of both."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text

    def __str__(self) -> str:
        return f"{self.text} no. {self.number}"

    def __reduce__(self) -> Any:
        return OwnMessageError, (self.number, self.text)


class NotelessError(Exception):
    """Has notes of its own making."""

    __notes__ = property(lambda _self: ["my own"])


def fail_with(make: Any) -> Any:
    def transform(sample: CachedSample) -> int:
        if number_of(sample) == 6:
            raise make()
        return number_of(sample)

    return transform


@WORKER_COUNTS
@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: ValueError("bad value"), ValueError, "bad value (sample_transform_fn failed on"),
        (ZeroDivisionError, ZeroDivisionError, "sample_transform_fn failed on"),
        (lambda: KeyError("label"), KeyError, "label (sample_transform_fn failed on"),
        (lambda: OSError(2, "no such file", "x"), FileNotFoundError, "no such file: 'x'"),
        (lambda: AwkwardError(3, reason="odd"), AwkwardError, "odd 3 (sample_transform_fn failed"),
        (lambda: UnpicklableError("locked"), UnpicklableError, "locked (sample_transform_fn"),
        (lambda: StopIteration(3), TransformError, "StopIteration: 3 (sample_transform_fn failed"),
        (lambda: NotelessError("x"), TransformError, "NotelessError: x (sample_transform_fn faile"),
        (lambda: OwnMessageError(3, "red"), OwnMessageError, "red no. 3"),
        (lambda: FrozenError(3), FrozenError, "3"),
        (lambda: ImmutableError("x"), ImmutableError, "x (sample_transform_fn failed on"),
        (lambda: ValueError(404), ValueError, "404"),
        (lambda: CancelledError("late"), CancelledError, "late (sample_transform_fn failed on"),
        (lambda: GeneratorExit("gone"), GeneratorExit, "gone (sample_transform_fn failed on"),
        (lambda: BaseException("boo"), BaseException, "boo (sample_transform_fn failed on"),
    ],
    ids=[
        "plain",
        "empty",
        "key",
        "os",
        "awkward",
        "unpicklable",
        "stop",
        "noteless",
        "own",
        "frozen",
        "immutable",
        "number",
        "cancelled",
        "generator",
        "base",
    ],
)
def test_an_exception_arrives_with_class_sample_and_traceback(
    dataset: CachedDataset, num_workers: int, make: Any, kind: type[BaseException], message: str
) -> None:
    loader = make_loader(dataset, num_workers, sample_transform_fn=fail_with(make))
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(kind) as caught:
        next(iterator)
    cache_id = dataset.caches[0].id
    where = (
        f"sample_transform_fn failed on sample (cache_id={cache_id}, sample_id=6) "
        "at stream position 6"
    )
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert caught.value.__notes__ == [where]
    shown = "".join(traceback.format_exception(caught.value))
    assert "in transform" in shown
    assert "raise make()" in shown


@WORKER_COUNTS
def test_an_exception_keeps_an_argument_that_is_no_message(
    dataset: CachedDataset, num_workers: int
) -> None:
    loader = make_loader(
        dataset, num_workers, sample_transform_fn=fail_with(lambda: ValueError(404))
    )
    with pytest.raises(ValueError, match="404") as caught:
        list(loader)
    assert caught.value.args == (404,)


def test_an_exception_that_is_raised_again_says_where_it_was_raised_last(
    dataset: CachedDataset,
) -> None:
    reused = ValueError("bad")
    reused.add_note("by the user")

    def fail(_sample: CachedSample) -> None:
        raise reused

    iterator = iter(make_loader(dataset, 0, sample_transform_fn=fail))
    for batch in range(3):
        with pytest.raises(ValueError, match="bad") as caught:
            next(iterator)
        own, where = caught.value.__notes__
        assert own == "by the user"
        assert f"at stream position {4 * batch}" in where
        assert str(caught.value) == f"bad ({where})"


def test_attributes_of_an_exception_arrive_where_they_can(dataset: CachedDataset) -> None:
    def fail(sample: CachedSample) -> None:
        raise AwkwardError(number_of(sample), reason="odd")

    with pytest.raises(AwkwardError) as caught:
        next(iter(make_loader(dataset, 1, sample_transform_fn=fail)))
    assert caught.value.number == 0


def test_an_exception_that_cannot_be_rebuilt_is_named(dataset: CachedDataset) -> None:
    loader = make_loader(
        dataset, 1, sample_transform_fn=fail_with(lambda: ForeverError("gone", secret=1))
    )
    with pytest.raises(TransformError) as caught:
        list(loader)
    message = str(caught.value)
    assert "ForeverError: gone (sample_transform_fn failed on sample" in message
    assert "Traceback (most recent call last)" in message
    assert "sample_id=6" in caught.value.__notes__[0]


@WORKER_COUNTS
def test_a_loop_may_go_on_after_an_exception(dataset: CachedDataset, num_workers: int) -> None:
    loader = make_loader(
        dataset, num_workers, sample_transform_fn=fail_with(lambda: ValueError("bad"))
    )
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(ValueError, match="bad"):
        next(iterator)
    # The failed batch was not handed out, so a state asks for it again.
    assert loader.state_dict()["batch"] == 1
    assert next(iterator).tolist() == [8, 9, 10, 11]
    assert loader.state_dict()["epoch"] == 1


@WORKER_COUNTS
@pytest.mark.parametrize("argument", ["collate_fn", "batch_transform_fn"])
def test_an_exception_over_a_batch_names_the_batch(
    dataset: CachedDataset, num_workers: int, argument: str
) -> None:
    def fail(_batch: Any) -> None:
        raise ValueError("bad batch")

    loader = make_loader(dataset, num_workers, **{argument: fail})
    with pytest.raises(ValueError, match="bad batch") as caught:
        list(loader)
    where = f"{argument} failed on the batch of stream positions 0 to 3 (epoch 0, batch 0)"
    assert caught.value.__notes__ == [where]


@WORKER_COUNTS
def test_what_the_default_collation_cannot_take_is_explained(
    dataset: CachedDataset, num_workers: int
) -> None:
    loader = make_loader(dataset, num_workers, sample_transform_fn=lambda _sample: None)
    with pytest.raises(TypeError, match="found <class 'NoneType'>") as caught:
        list(loader)
    assert caught.value.__notes__[0].startswith(
        "default collation of the NoneType values that sample_transform_fn returned failed on the "
    )


@WORKER_COUNTS
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
    ids=["coo", "csr", "nested"],
)
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:.*nested tensors:UserWarning")
def test_tensors_of_other_layouts_arrive(
    dataset: CachedDataset, num_workers: int, make: Any
) -> None:
    loader = make_loader(dataset, num_workers, batch_transform_fn=lambda _batch: make())
    batch = next(iter(loader))
    assert batch.layout is make().layout
    assert (
        batch.to_padded_tensor(0).tolist() == [[1, 1, 0], [1, 1, 1]]
        if batch.is_nested
        else (batch.to_dense().tolist() == torch.eye(3).tolist())
    )


def test_a_shared_tensor_that_was_computed_is_an_error_and_no_hang(
    dataset: CachedDataset,
) -> None:
    def compute(_batch: Any) -> torch.Tensor:
        leaf: torch.Tensor = torch.ones(4).share_memory_()  # type: ignore[no-untyped-call]
        return leaf.requires_grad_()[:2]

    with pytest.raises(TransformError, match="non-leaf tensor which requires_grad"):
        list(make_loader(dataset, 1, batch_transform_fn=compute))


class Unreadable:
    """Pickles, and cannot be unpickled."""

    def __reduce__(self) -> Any:
        return int, ("zz",)


def test_a_batch_that_cannot_be_unpickled_is_an_error_and_not_the_end(
    dataset: CachedDataset,
) -> None:
    def second_unreadable(batch: CachedBatch) -> Any:
        numbers = batch.metadata["number"]
        return Unreadable() if 4 in numbers else [int(number) for number in numbers]

    iterator = iter(make_loader(dataset, 1, batch_transform_fn=second_unreadable))
    assert next(iterator) == [0, 1, 2, 3]
    with pytest.raises(TransformError, match=r"cannot be unpickled: ValueError: invalid literal"):
        next(iterator)
    assert next(iterator) == [8, 9, 10, 11]


def test_a_batch_that_cannot_be_sent_is_an_error_and_no_hang(dataset: CachedDataset) -> None:
    loader = make_loader(
        dataset, 1, sample_transform_fn=lambda _sample: threading.Lock(), collate_fn=list
    )
    with pytest.raises(TransformError, match="a batch of type list cannot be sent from the worker"):
        list(loader)


class LocalError(Exception):
    """Holds what cannot be sent."""

    def __init__(self, _number: int, reason: str) -> None:
        super().__init__(reason)
        self.lock = threading.Lock()


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: LocalError(1, "not ready"), LocalError),
        (lambda: OSError("not ready"), OSError),
        (lambda: StopIteration("not ready"), TransformError),
    ],
    ids=["unpicklable", "os", "stop"],
)
def test_a_failing_init_function_is_the_error_of_the_first_batch(
    dataset: CachedDataset,
    tmp_path: Path,
    persistent_workers: bool,
    make: Any,
    kind: type[Exception],
) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def prepare(_worker_id: int) -> None:
        if broken.exists():
            raise make()

    loader = make_loader(
        dataset,
        1,
        sample_transform_fn=number_of,
        worker_init_fn=prepare,
        persistent_workers=persistent_workers,
    )
    loader.set_epoch(0)
    iterator = iter(loader)
    with pytest.raises(kind, match="not ready") as caught:
        next(iterator)
    assert type(caught.value) is kind
    assert caught.value.__notes__ == ["worker_init_fn failed in loading worker 0"]
    assert "in prepare" in "".join(traceback.format_exception(caught.value))
    assert list(iterator) == []
    broken.unlink()
    loader.set_epoch(0)
    assert flat(numbers_of(loader)) == list(range(12))


def test_a_module_that_workers_lack_is_an_error_and_no_dead_worker(
    dataset: CachedDataset,
) -> None:
    class Missing:
        def __reduce__(self) -> Any:
            return __import__, ("no_such_module_at_all",)

        def __call__(self, _sample: Any) -> None: ...

    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        list(make_loader(dataset, 1, sample_transform_fn=Missing()))


@WORKER_COUNTS
def test_a_transform_can_ask_whether_its_sample_is_padding(
    dataset: CachedDataset, num_workers: int
) -> None:
    def number_and_padding(sample: CachedSample, *, is_padding: bool) -> tuple[int, bool]:
        return number_of(sample), is_padding

    loader = make_loader(
        dataset,
        num_workers,
        sample_transform_fn=number_and_padding,
        samples_per_epoch=7,
        rank=1,
        world_size=2,
    )
    ((numbers, is_padding),) = loader
    assert numbers.tolist() == [4, 5, 6, 7]
    assert is_padding.tolist() == [False, False, False, True]
