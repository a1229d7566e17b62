"""The saved state of a loader: what is in it, and when a loader may continue from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataset_rt import _core
from dataset_rt.exceptions import StateMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_VERSION = 1

_INTEGERS = (
    "version",
    "sampler_version",
    "seed",
    "epoch",
    "batch",
    "global_samples",
    "samples_per_epoch",
    "global_batch_size",
    "world_size",
    "batch_size",
    "num_parts",
)
# Seeds have 64 bits; everything else counts positions of the stream, or parts of them.
_LARGEST = {**dict.fromkeys(_INTEGERS, 2**63 - 1), "seed": 2**64 - 1}
_TYPES: dict[str, type] = {
    **dict.fromkeys(_INTEGERS, int),
    "order": str,
    "drop_last": bool,
    "counts_epochs": bool,
    "fingerprint": str,
    "caches": list,
}


@dataclass(frozen=True, slots=True)
class LoaderIdentity:
    """What must be the same for a loader to continue another loader's stream.

    Attributes:
        order: ``"weighted"``, ``"permutation"`` or ``"sequential"``.
        samples_per_epoch: Samples of an epoch over all ranks.
        batch_size: Samples of a batch on one rank.
        world_size: How many ranks share a global batch.
        num_parts: Parts of the population that consumers draw from; 1 if it is not divided.
        drop_last: Whether a last, smaller global batch is left out.
        fingerprint: Fingerprint of the caches and the active table.
        caches: Id, name and number of samples of each cache, for messages.
    """

    order: str
    samples_per_epoch: int
    batch_size: int
    world_size: int
    num_parts: int
    drop_last: bool
    fingerprint: str
    caches: tuple[tuple[int, str, int], ...]

    @property
    def global_batch_size(self) -> int:
        """Samples of a batch over all ranks."""
        return self.batch_size * self.world_size


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where a saved state says to go on.

    Attributes:
        seed: The seed of the stream.
        epoch: The epoch of the next batch.
        batch: The number of the next batch in its epoch.
        counts_epochs: Whether the pass after it is the next epoch.
    """

    seed: int
    epoch: int
    batch: int
    counts_epochs: bool


def to_state(identity: LoaderIdentity, resumption: Resumption) -> dict[str, Any]:
    """Return a state of plain Python values, which ``torch.load(weights_only=True)`` accepts."""
    done = min(resumption.batch * identity.global_batch_size, identity.samples_per_epoch)
    return {
        "version": STATE_VERSION,
        "sampler_version": _core.sampler_version,
        "seed": resumption.seed,
        "order": identity.order,
        "epoch": resumption.epoch,
        "batch": resumption.batch,
        "counts_epochs": resumption.counts_epochs,
        "global_samples": resumption.epoch * identity.samples_per_epoch + done,
        "samples_per_epoch": identity.samples_per_epoch,
        "global_batch_size": identity.global_batch_size,
        "drop_last": identity.drop_last,
        "world_size": identity.world_size,
        "batch_size": identity.batch_size,
        "num_parts": identity.num_parts,
        "fingerprint": identity.fingerprint,
        "caches": [
            {"cache_id": cache_id, "name": name, "samples": samples}
            for cache_id, name, samples in identity.caches
        ],
    }


def from_state(
    state: object, identity: LoaderIdentity, *, expected_seed: int | None, num_batches: int
) -> Resumption:
    """Check a saved state against a loader and return where to go on.

    Args:
        state: What ``state_dict()`` gave, in this or another process.
        identity: The loader that is to continue.
        expected_seed: The loader's seed; None if it takes any.
        num_batches: Batches of an epoch of that loader.

    Raises:
        StateMismatchError: The value is no state of a loader, or that of another stream; lists
            every difference.
    """
    checked = _checked(state)
    differences = []
    expected: dict[str, Any] = {
        "sampler_version": _core.sampler_version,
        "order": identity.order,
        "samples_per_epoch": identity.samples_per_epoch,
        "global_batch_size": identity.global_batch_size,
        "drop_last": identity.drop_last,
        "num_parts": identity.num_parts,
    }
    if identity.num_parts > 1:
        # Which part a batch comes from depends on how they are dealt to the ranks.
        expected["world_size"] = identity.world_size
    if expected_seed is not None:
        expected["seed"] = expected_seed
    for name, own in expected.items():
        if checked[name] != own:
            differences.append(f"{name}: the state has {checked[name]!r}, the loader has {own!r}")
    differences += _table_differences(checked, identity)
    if differences:
        raise StateMismatchError(
            "\n".join(["the state belongs to another loader, expected the same", *differences])
        )
    if checked["batch"] > num_batches:
        raise StateMismatchError(
            f"the state has batch {checked['batch']}, expected 0 to {num_batches}"
        )
    return Resumption(
        seed=checked["seed"],
        epoch=checked["epoch"],
        batch=checked["batch"],
        counts_epochs=checked["counts_epochs"],
    )


def _checked(state: object) -> Mapping[str, Any]:
    """Return the state if it is a mapping with all fields of the right types."""
    if not isinstance(state, dict):
        raise StateMismatchError(
            f"the state is a {type(state).__qualname__}, expected the dict of a loader's state_dict"
        )
    version = state.get("version")
    if type(version) is int and version != STATE_VERSION:
        raise StateMismatchError(
            f"the state has version {version}, expected {STATE_VERSION}\n"
            "hint: load it with the release of dataset-rt-torch that saved it"
        )
    faults = [
        f"{name} is missing"
        if name not in state
        else f"{name} is {state[name]!r}, expected {kind.__name__}"
        for name, kind in _TYPES.items()
        if type(state.get(name)) is not kind
    ]
    faults += [
        f"{name} is {state[name]}, expected 0 to {_LARGEST[name]}"
        for name in _INTEGERS
        if type(state.get(name)) is int and not 0 <= state[name] <= _LARGEST[name]
    ]
    if not faults and state["batch_size"] * state["world_size"] != state["global_batch_size"]:
        faults.append(
            f"global_batch_size is {state['global_batch_size']}, expected the product of "
            f"batch_size {state['batch_size']} and world_size {state['world_size']}"
        )
    if faults:
        raise StateMismatchError(
            "\n".join(["the state is not one that a loader's state_dict gave", *faults])
        )
    return state


def _table_differences(state: Mapping[str, Any], identity: LoaderIdentity) -> list[str]:
    saved = [
        (cache.get("cache_id"), cache.get("name"), cache.get("samples"))
        for cache in state["caches"]
        if isinstance(cache, dict)
    ]
    if saved != list(identity.caches):
        own = _shown_caches(identity.caches)
        return [f"caches: the state has {_shown_caches(saved)}, the loader has {own}"]
    if state["fingerprint"] != identity.fingerprint:
        saved_fingerprint, own = state["fingerprint"], identity.fingerprint
        difference = f"the state has {saved_fingerprint!r}, the loader has {own!r}"
        return [f"fingerprint of contents, rows and weights: {difference}"]
    return []


def _shown_caches(caches: list[tuple[Any, Any, Any]] | tuple[tuple[Any, Any, Any], ...]) -> str:
    return ", ".join(f"{name!r} ({samples} samples)" for _, name, samples in caches) or "none"
