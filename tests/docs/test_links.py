"""Links between pages lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, ROOT, name_of, pages

LINK = re.compile(r"\[[^\]]+\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors that a Markdown viewer makes of the headings of a page."""
    titles = [match["title"] for match in HEADING.finditer(FENCE.sub("", page.read_text()))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for match in LINK.finditer(FENCE.sub("", page.read_text())):
        path, _, anchor = match["target"].partition("#")
        if path.startswith(("http:", "https:", "mailto:")):
            continue
        target = page if not path else (page.parent / path).resolve()
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(match["target"])
    assert broken == []


def test_every_page_of_the_documentation_can_be_reached_from_its_index() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        waiting += [
            (page.parent / match["target"].partition("#")[0]).resolve()
            for match in LINK.finditer(page.read_text())
            if not match["target"].startswith(("http:", "https:", "#"))
        ]
    assert sorted(set(ROOT.glob("docs/**/*.md")) - reached) == []


def test_files_named_in_the_architecture_page_exist() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:rs|py))`", (ROOT / "ARCHITECTURE.md").read_text()))
    sources = [
        path.as_posix()
        for folder in ("crates", "packages")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".rs"}
    ]
    missing = [name for name in named if not any(path.endswith(f"/{name}") for path in sources)]
    assert missing == []
