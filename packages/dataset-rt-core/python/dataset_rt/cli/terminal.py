"""How tables and bars are drawn, in a terminal of any width and in a pipe."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from dataset_rt.cli.text import json_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import ConsoleOptions, RenderResult

_PIPE_WIDTH = 1_000_000
_BAR_WIDTH = 40
_TEXT_WIDTH = 8
_GAP_WIDTH = 2
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"
_ASCII_FULL = "#"


class Terminal(Console):
    """Standard output, on which nothing in a text is taken for markup."""

    def __init__(self) -> None:
        """Take the width of a terminal; a pipe gets whole lines, for others to search."""
        super().__init__(file=sys.stdout, markup=False, emoji=False, highlight=False)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = _PIPE_WIDTH

    def on_broken_pipe(self) -> NoReturn:
        """Let ``main`` decide; it is called where BrokenPipeError is handled."""
        raise  # noqa: PLE0704 - the one that is being handled

    def write_json(self, document: dict[str, Any]) -> None:
        """Write the one document of a command."""
        self.file.write(json_document(document))

    def write_line(self, text: str = "") -> None:
        """Write one line, which must be printable."""
        self.print(Text(text), overflow="fold")

    def title(self, text: str, rest: str = "") -> None:
        """Write a line that begins something, with its first part in bold."""
        self.print(Text.assemble((text, "bold"), rest), overflow="fold")

    def fields(self, fields: Iterable[tuple[str, str]]) -> None:
        """Write names and values below one another."""
        table = Table.grid(padding=(0, _GAP_WIDTH, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        names = [0]
        for name, value in fields:
            table.add_row(Text(f"  {name}"), Text(value))
            names.append(cell_len(name))
        self._write_table(table, 2 * _GAP_WIDTH + max(names) + _TEXT_WIDTH)

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str | Bar]]) -> None:
        """Write a table. A header that begins with ``>`` is that of a column of numbers."""
        table = Table(box=None, pad_edge=False, padding=(0, _GAP_WIDTH, 0, 0), header_style="dim")
        for header in headers:
            is_number = header.startswith(">")
            table.add_column(
                Text(header.removeprefix(">")),
                justify="right" if is_number else "left",
                # Where there is little room, text and bars give way: a number in pieces misleads.
                no_wrap=is_number,
                overflow="fold",
            )
        content = [tuple(row) for row in rows]
        for row in content:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        self._write_table(table, _narrowest(headers, content))

    def _write_table(self, table: Table, narrowest: int) -> None:
        """Write a table without the blanks that fill up its last column.

        In a terminal that is narrower than the narrowest that can be read, lines run over.
        """
        width = self.width
        self.width = max(width, narrowest)
        with self.capture() as captured:
            self.print(table)
        self.width = width
        lines = captured.get().split("\n")
        self.file.write("\n".join(line.rstrip(" ") for line in lines))


def _narrowest(headers: Sequence[str], rows: Sequence[Sequence[str | Bar]]) -> int:
    """Return the width in which numbers are whole and texts have a few characters a line."""
    width = (len(headers) - 1) * _GAP_WIDTH
    for number, header in enumerate(headers):
        texts = [header.removeprefix(">"), *(str(row[number]) for row in rows)]
        wanted = max(cell_len(text) for text in texts)
        width += wanted if header.startswith(">") else min(wanted, _TEXT_WIDTH)
    return width


class Bar:
    """A bar that fills its part of the width at hand, drawn to an eighth of a character."""

    def __init__(self, count: int, largest: int) -> None:
        """Take a count and the one whose bar is the longest."""
        self._fraction = count / largest if largest else 0.0

    def __str__(self) -> str:
        """Return the least that can be drawn."""
        return _ASCII_FULL

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        """Give way where the terminal is narrow."""
        return Measurement(1, min(_BAR_WIDTH, options.max_width))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw; what is not zero can be seen."""
        width = min(_BAR_WIDTH, options.max_width)
        if options.ascii_only:
            length = round(self._fraction * width) or int(self._fraction > 0)
            drawn = _ASCII_FULL * length
        else:
            eighths = round(self._fraction * width * 8) or int(self._fraction > 0)
            drawn = _FULL * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        yield Segment(drawn, Style(color="cyan"))
