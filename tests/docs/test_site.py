"""Builds the site with all links checked, and holds every Markdown page to the rules that it can check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KINDS = ("tutorial", "how-to", "reference", "explanation")
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
GENERATED = DOCS / "reference" / "api.md"
PAGES = [*OUTSIDE, DOCS / "index.md", *(q for k in KINDS for q in sorted((DOCS / k).glob("*.md")))]


def without_code(text: str) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.S | re.M)


def anchors(path: Path) -> set[str]:
    """Returns the anchors that GitHub and MkDocs give to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", without_code(path.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_the_site_builds_with_every_link_checked(tmp_path: Path) -> None:
    """`--strict` makes an error of every link, anchor and page that is missing, and of every page outside the nav."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "language" / "index.html").exists()
    for page in (tmp_path / "site").rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert not re.findall(
            r'<(?:script|link|img|iframe)[^>]+(?:src|href)="https?://(?!localhost)[^"]+\.(?:js|css|woff2?)', html
        ), page
        assert "fonts.googleapis" not in html, page
        assert "google-analytics" not in html, page


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda p: p.name)
def test_links_of_pages_outside_the_site(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        found = page.parent / name if name else page
        assert found.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(found), f"{page.name}: {target}"


def test_every_page_is_of_one_kind() -> None:
    folders = {p.relative_to(DOCS).parts[0] for p in DOCS.rglob("*.md")}
    assert folders <= {*KINDS, "decisions", "index.md"}


@pytest.mark.parametrize("page", [p for p in PAGES if p != GENERATED], ids=lambda p: str(p.relative_to(ROOT)))
def test_one_sentence_per_line(page: Path) -> None:
    """Tables and code are free: a cell may hold several sentences."""
    for line in without_code(page.read_text(encoding="utf-8")).splitlines():
        if line.lstrip().startswith("|") or line.startswith("    "):
            continue
        plain = re.sub(r"`[^`]*`|\([^()]*\)", "x", re.sub(r"^(#+ )?\s*\d+\. ", "", line))
        assert not re.search(r"[a-z0-9)*][.!?] +[A-Z`*]", plain), f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_words_of_the_glossary(page: Path) -> None:
    """A few words that the glossary replaced, and that have no other use on these pages."""
    if page.name == "glossary.md":
        return
    text = without_code(page.read_text(encoding="utf-8")).lower()
    for word in (
        "whole ways",
        "let go",
        "lets go",
        "is told",
        "are told",
        "whoever",
        "micro-batches a",
        "tuples a second",
    ):
        assert word not in text, f"{page.name}: '{word}'"
