"""`kigen fmt`: writes app files in the usual layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kigen.engine.errors import AppNotFound
from kigen.language.formatting import format_app


def format_files(files: Sequence[Path], write: bool) -> list[Path]:
    """Returns the files that are not in the usual layout; `write` puts them in it."""
    changed = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AppNotFound(f"{path}: an app file in UTF-8 is required: {error}") from error
        formatted = format_app(text)
        if formatted != text:
            changed.append(path)
            if write:
                path.write_text(formatted, encoding="utf-8")
    return changed
