"""Finds the Markdown pages of the repository and the code blocks in them."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: (?P<module>\w+) -->\n\Z")
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^>]+) -->\n\Z")


@dataclass(frozen=True)
class Fence:
    """One fenced code block."""

    page: Path
    line: int
    language: str
    text: str
    reason_not_run: str | None
    needed_module: str | None
    expected_output: str | None

    @property
    def is_program(self) -> bool:
        """Whether the block guards its entry point, so that worker processes can import it."""
        return '__name__ == "__main__"' in self.text


def pages() -> list[Path]:
    """Return every Markdown page that people read."""
    patterns = ("*.md", "changes/*.md", "docs/**/*.md", "packages/*/README.md", "crates/*.md")
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def name_of(page: Path) -> str:
    """Return the path of a page as it is written in links and messages."""
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> list[Fence]:
    """Return the code blocks of a page in order.

    A ``text`` block right after a Python block, with nothing between them, is its output.
    """
    text = page.read_text()
    matches = list(FENCE.finditer(text))
    found = []
    for match, following in itertools.zip_longest(matches, matches[1:]):
        marker = NOT_RUN.search(text[: match.start()])
        needs = NEEDS.search(text[: match.start()])
        is_followed_by_output = (
            following is not None
            and following["language"] == "text"
            and not text[match.end() : following.start()].strip()
        )
        found.append(
            Fence(
                page=page,
                line=text.count("\n", 0, match.start()) + 2,
                language=match["language"],
                text=match["text"],
                reason_not_run=marker["reason"] if marker else None,
                needed_module=needs["module"] if needs else None,
                expected_output=following["text"] if following and is_followed_by_output else None,
            )
        )
    return found
