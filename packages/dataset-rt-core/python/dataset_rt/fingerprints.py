"""What a source says about its input: one canonical text per JSON value, and how two differ."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from dataset_rt import arguments
from dataset_rt.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

JsonValue: TypeAlias = Union[
    "Mapping[str, JsonValue]", "Sequence[JsonValue]", str, int, float, bool, None
]
"""Any value that JSON can hold."""

_MAX_DIFFERENCES = 10
_MAX_SHOWN_CHARACTERS = 200


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces, tuples as lists.

    Raises:
        ConfigError: The value, or a part of it, is nothing that JSON can hold.

    Example:
        >>> canonical_json({"b": (1, 2), "a": None})
        '{"a":null,"b":[1,2]}'
    """
    try:
        text = json.dumps(
            _plain(value, "fingerprint"),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )
        text.encode()
    except RecursionError:
        raise ConfigError("fingerprint is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        raise ConfigError(
            "fingerprint holds text with a lone surrogate, expected valid text\n"
            "hint: file names that are not UTF-8 have such text; os.fsencode(name).hex() is valid"
        ) from None
    return text


def differences(cached: str | None, current: str | None) -> str:
    """Describe how the fingerprint of a cache and that of its source differ, one line each.

    Example:
        >>> print(differences('{"rows":10,"version":1}', '{"rows":12,"version":1}'))
        rows: the cache has 10, the source has 12
    """
    if cached is None:
        return f"the cache has no fingerprint, the source has {current}"
    found = list(_differences(json.loads(cached), json.loads(current or "null"), ""))
    if len(found) > _MAX_DIFFERENCES:
        hidden = len(found) - _MAX_DIFFERENCES
        found = [*found[:_MAX_DIFFERENCES], f"and {hidden} more"]
    return "\n".join(found)


def _plain(value: object, where: str) -> object:
    """Return the value with NumPy scalars and tuples as plain Python, or say where it fails."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ConfigError(f"{where} is {value}, which JSON cannot hold")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(
                    f"{where} has the key {arguments.shown(key)}, expected str as in JSON"
                )
        return {key: _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise ConfigError(
        f"{where} is {arguments.shown(value)} ({arguments.type_name(value)}), expected a JSON "
        "value: dict, list, str, int, float, bool or None"
    )


def _differences(cached: object, current: object, where: str) -> Iterator[str]:
    if isinstance(cached, dict) and isinstance(current, dict):
        for key in sorted(cached.keys() | current.keys()):
            shown_key = key if key.isidentifier() else _shown(key)
            inner = f"{where}.{shown_key}" if where else shown_key
            if key not in cached:
                yield f"{inner}: only the source has it, {_shown(current[key])}"
            elif key not in current:
                yield f"{inner}: only the cache has it, {_shown(cached[key])}"
            else:
                yield from _differences(cached[key], current[key], inner)
    elif isinstance(cached, list) and isinstance(current, list) and len(cached) == len(current):
        for index, (old, new) in enumerate(zip(cached, current, strict=True)):
            yield from _differences(old, new, f"{where}[{index}]")
    elif _text(cached) != _text(current):
        name = where or "fingerprint"
        yield f"{name}: the cache has {_shown(cached)}, the source has {_shown(current)}"


def _shown(value: object) -> str:
    text = _text(value)
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = f"{text[:_MAX_SHOWN_CHARACTERS]}..."
    return text


def _text(value: object) -> str:
    # As JSON, so that 1, 1.0 and true stay different.
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
