"""Warns at import of a debug build, so that nobody measures one by accident."""

import warnings

from dataset_rt import _core

if _core.build_profile != "release":
    warnings.warn(
        f"dataset_rt._core is a {_core.build_profile} build: correct, but many times slower",
        UserWarning,
        stacklevel=2,
    )
