"""The saved position of a dataset's stream: what is in it, and which dataset may load it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataset_rt import _core, arguments
from dataset_rt.exceptions import StateMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataset_rt.config import ReaderConfig

STATE_VERSION = 1

_FIELD_TYPES = {
    "version": int,
    "sampler_version": int,
    "seed": int,
    "order": str,
    "position": int,
    "rows": int,
    "caches": list,
    "fingerprint": str,
}
_LONGEST_LIST = 10


def order_of(config: ReaderConfig) -> str:
    """Return the name of the order in which a dataset draws."""
    if not config.shuffle:
        return "sequential"
    return "weighted" if config.replacement else "permutation"


def state_of(native: _core.Dataset, config: ReaderConfig) -> dict[str, Any]:
    """Return where the next iterator begins, with all that the stream depends on."""
    return {
        "version": STATE_VERSION,
        "sampler_version": _core.sampler_version,
        "seed": config.seed,
        "order": order_of(config),
        "position": native.cursor,
        "rows": native.num_rows,
        "caches": [[cache_id, name, samples] for cache_id, name, _, samples in native.caches],
        "fingerprint": native.fingerprint,
    }


def position_in(state: object, native: _core.Dataset, config: ReaderConfig) -> int:
    """Return the position in a saved state, if it belongs to this dataset.

    Raises:
        StateMismatchError: The state is damaged, or of another table, seed, order or version;
            the message lists all differences.
    """
    if not isinstance(state, dict):
        raise StateMismatchError(
            f"state is {arguments.type_name(state)}, expected the dict that state_dict() gave"
        )
    if "version" in state and state["version"] != STATE_VERSION:
        raise StateMismatchError(
            f"state has version {arguments.shown(state['version'])}, "
            f"this release reads version {STATE_VERSION}"
        )
    malformed = [_malformed(state, name, kind) for name, kind in _FIELD_TYPES.items()]
    if any(malformed):
        raise StateMismatchError(
            f"state is not one that state_dict() gave: {', '.join(filter(None, malformed))}"
        )
    current = state_of(native, config)
    found = differences(state, current)
    if found:
        listed = "\n".join(f"- {difference}" for difference in found)
        raise StateMismatchError(
            f"the state belongs to another stream than this dataset's\n{listed}"
        )
    if not 0 <= state["position"] <= arguments.MAX_INT64:
        raise StateMismatchError(
            f"state has position {state['position']}, expected 0 to {arguments.MAX_INT64}"
        )
    return int(state["position"])


def differences(saved: dict[str, Any], current: dict[str, Any]) -> list[str]:
    """Return one sentence for each difference that makes the streams different."""
    found = [
        f"{name}: the state has {saved[name]!r}, the dataset {current[name]!r}"
        for name in ("sampler_version", "seed", "order")
        if saved[name] != current[name]
    ]
    caches = cache_differences("the state", saved["caches"], current["caches"])
    if caches:
        found += caches
    elif saved["rows"] != current["rows"]:
        found.append(f"active rows: the state has {saved['rows']}, the dataset {current['rows']}")
    elif saved["fingerprint"] != current["fingerprint"]:
        found.append(
            "active table: other rows, weights or order of rows, or caches with other content"
        )
    return found


def cache_differences(
    owner: str, saved: Sequence[Sequence[Any]], current: Sequence[Sequence[Any]]
) -> list[str]:
    """Return one sentence for each cache that is missing, new, of another size or elsewhere.

    Args:
        owner: What holds the saved list, as in ``the state``.
        saved: Id, name and number of samples of each cache.
        current: The same of the dataset.
    """
    saved_samples = {name: samples for _, name, samples in saved}
    current_samples = {name: samples for _, name, samples in current}
    found = [
        f"cache {name!r}: missing in the dataset"
        for name in saved_samples
        if name not in current_samples
    ]
    found += [
        f"cache {name!r}: not in {owner}" for name in current_samples if name not in saved_samples
    ]
    found += [
        f"cache {name!r}: {owner} has {samples} samples, the dataset {current_samples[name]}"
        for name, samples in saved_samples.items()
        if name in current_samples and current_samples[name] != samples
    ]
    if not found and list(saved_samples) != list(current_samples):
        found.append(
            f"order of caches: {owner} has {list(saved_samples)}, "
            f"the dataset {list(current_samples)}"
        )
    if len(found) > _LONGEST_LIST:
        found = [*found[:_LONGEST_LIST], f"and {len(found) - _LONGEST_LIST} more caches"]
    return found


def _malformed(state: dict[str, Any], name: str, kind: type) -> str | None:
    if name not in state:
        return f"it has no {name!r}"
    value = state[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        return f"its {name!r} is {arguments.shown(value)}"
    if isinstance(value, list) and not all(_is_cache(item) for item in value):
        return f"its {name!r} is {arguments.shown(value)}"
    return None


def _is_cache(item: object) -> bool:
    return (
        isinstance(item, list)
        and len(item) == 3  # noqa: PLR2004 - id, name and samples
        and isinstance(item[1], str)
    )
