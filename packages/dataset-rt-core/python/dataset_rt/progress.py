"""Progress bars of writing and verifying; their library is loaded only when one is shown."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, Self

from dataset_rt.sources import expected_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from dataset_rt.sources import NamedSource

_BYTES_PER_MEGABYTE = 10**6
_logger = logging.getLogger("dataset_rt.writer")


def is_shown(show_progress: bool | str) -> bool:
    """Say whether bars are shown: ``"auto"`` asks for a terminal or a notebook."""
    if isinstance(show_progress, bool):
        return show_progress
    return _is_terminal() or _is_notebook()


class WriteProgress:
    """One bar per source that is being written, and one over all sources if there are several."""

    def __init__(self, show_progress: bool | str, sources: Sequence[NamedSource]) -> None:
        """Show nothing yet."""
        self._shows = is_shown(show_progress)
        self._sources = {named.name: named.source for named in sources}
        self._bars: dict[str, Any] = {}
        self._overall: Any = None

    def __enter__(self) -> Self:
        """Show the overall bar."""
        if self._shows and len(self._sources) > 1:
            self._overall = _tqdm()(total=len(self._sources), desc="caches", unit="cache")
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Leave all bars as they are."""
        for bar in (*self._bars.values(), self._overall):
            if bar is not None:
                with contextlib.suppress(OSError, ValueError):
                    bar.close()

    def of_source(self, name: str) -> Callable[[int, int], None] | None:
        """Return what a build calls with its samples and payload bytes so far."""
        if not self._shows:
            return None
        return lambda samples, payload_bytes: self.update(name, samples, payload_bytes)

    def update(self, name: str, samples: int, payload_bytes: int) -> None:
        """Show how far the build of a source is."""
        if not self._shows:
            return
        try:
            self._update(name, samples, payload_bytes)
        except (OSError, ValueError) as error:
            # A bar that cannot be shown, as on a closed terminal, is no reason to lose a build.
            self._shows = False
            _logger.warning("progress is not shown any more: %s", error)

    def _update(self, name: str, samples: int, payload_bytes: int) -> None:
        bar = self._bars.get(name)
        if bar is None:
            bar = self._bars[name] = _tqdm()(
                total=expected_samples(self._sources[name]),
                # A build that continues begins where the earlier one ended.
                initial=samples,
                desc=name,
                unit="sample",
                unit_scale=True,
            )
            bar.first_bytes = payload_bytes
        elapsed = bar.format_dict["elapsed"]
        if elapsed > 0:
            rate = (payload_bytes - bar.first_bytes) / elapsed / _BYTES_PER_MEGABYTE
            bar.set_postfix_str(f"{rate:.1f} MB/s", refresh=False)
        bar.update(samples - bar.n)

    def finish(self, name: str) -> None:
        """Close the bar of a source, whether it was shown or not."""
        bar = self._bars.pop(name, None)
        with contextlib.suppress(OSError, ValueError):
            if bar is not None:
                bar.close()
            if self._overall is not None:
                self._overall.update(1)


@contextlib.contextmanager
def verification_bar(shows: bool, name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give what a verification calls with the bytes read so far and those in all."""
    if not shows:
        yield None
        return
    with _tqdm()(desc=name, unit="B", unit_scale=True) as bar:

        def report(read_bytes: int, total_bytes: int) -> None:
            bar.total = total_bytes
            bar.update(read_bytes - bar.n)

        yield report


def _is_terminal() -> bool:
    # A program without a console has no standard error, and closed ones raise.
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:
        return False


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _tqdm() -> Callable[..., Any]:
    from tqdm.auto import tqdm  # noqa: PLC0415 - slow to import, and rarely needed

    return tqdm
