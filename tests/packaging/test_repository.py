"""What no committed file may hold."""

import re
import subprocess
from pathlib import Path

from tests.packaging.environments import ROOT

# Written in pieces, so that this file does not hold what it looks for.
REGISTRY_HOSTS = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("crates", "io"),
    ("rust-lang", "org"),
    ("npmjs", "org"),
    ("debian", "org"),
)
# A page of documentation on such a domain is no registry.
ALLOWED = re.compile(r"doc\.rust-lang\.org")
LOCK_FILES = {"Cargo.lock", "uv.lock"}
# Files of golden caches, some of which happen to hold no zero byte.
BINARY_SUFFIXES = {".bin", ".arrow"}


def committed_texts() -> dict[str, str]:
    """Return path and text of each committed file that is text."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    texts = {}
    for path in listing.decode().split("\0"):
        if path and (ROOT / path).is_file() and Path(path).suffix not in BINARY_SUFFIXES:
            content = (ROOT / path).read_bytes()
            if b"\0" not in content:
                texts[path] = content.decode()
    return texts


def test_only_lock_files_name_the_host_of_a_registry() -> None:
    pattern = re.compile("|".join(rf"\b{re.escape('.'.join(host))}\b" for host in REGISTRY_HOSTS))
    found = [
        f"{path}: {match.group()}"
        for path, text in committed_texts().items()
        if path not in LOCK_FILES
        for match in pattern.finditer(ALLOWED.sub("", text))
    ]
    assert found == []


def test_every_committed_text_ends_with_one_line_break() -> None:
    texts = committed_texts()
    wrong = [
        path
        for path, text in texts.items()
        if text and (not text.endswith("\n") or text.endswith("\n\n"))
    ]
    assert wrong == []
