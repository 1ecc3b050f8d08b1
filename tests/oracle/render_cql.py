"""Writes an app as text and files: CQL (DESIGN 8.1) and one csv file per stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from oracle.shapes import (
    Agg,
    App,
    Body,
    Derived,
    Expr,
    First,
    Named,
    Query,
    Ref,
    Select,
    SetOp,
    Source,
    Stream,
    Text,
    Windowed,
)


@dataclass(frozen=True)
class CsvStyle:
    """Choices that RFC 4180 and ISO-8601 leave open."""

    quoted: bool = False  # every field except NULL
    line_end: str = "\n"
    hours: int = 0  # timestamps with that offset
    short: bool = False  # no fraction where it is zero


PLAIN = CsvStyle()
CSV_STYLES = (
    PLAIN,
    PLAIN,
    CsvStyle(quoted=True),
    CsvStyle(line_end="\r\n"),
    CsvStyle(hours=2),
    CsvStyle(short=True),
    CsvStyle(hours=-5, short=True),
)


def iso(us: int, style: CsvStyle = PLAIN) -> str:
    zone = timezone(timedelta(hours=style.hours))
    moment = datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=us, hours=style.hours)
    text = moment.isoformat(timespec="auto" if style.short else "microseconds")
    return text.replace("+00:00", "Z")


def field(value: Any, kind: str, style: CsvStyle) -> str:
    """Writes a field by RFC 4180; NULL is empty and unquoted, the empty string is quoted."""
    if value is None:
        return ""
    if kind == "TIMESTAMP":
        text = iso(value, style)
    elif kind == "BOOLEAN":
        text = "true" if value else "false"
    else:
        text = value if kind == "STRING" else repr(value)
    if style.quoted or text == "" or any(c in text for c in '",\n\r'):
        return f'"{text.replace(chr(34), chr(34) * 2)}"'
    return text


def csv_text(stream: Stream, style: CsvStyle = PLAIN) -> str:
    lines = [",".join(c.name for c in stream.cols)]
    lines += [",".join(field(v, c.type, style) for v, c in zip(row, stream.cols, strict=True)) for row in stream.rows]
    return style.line_end.join(lines) + style.line_end


def source_name(source: Source) -> str:
    if source.alias is not None:
        return source.alias
    return (
        source.source if isinstance(source, Windowed) else source.query if isinstance(source, Named) else source.alias
    )


def expr_text(e: Expr, sources: tuple[Source, ...]) -> str:
    out = []
    for part in e.parts:
        if isinstance(part, Ref):
            source = sources[part.item]
            name = source.cols[part.col].name
            out.append(f"{source_name(source)}.{name}" if part.qualified else name)
        elif isinstance(part, Agg):
            out.append(agg_text(part, sources))
        else:
            out.append(part)
    return "".join(out)


def agg_text(a: Agg, sources: tuple[Source, ...]) -> str:
    args = ["*"] if a.arg is None else [expr_text(a.arg, sources)]
    args += [m if isinstance(m, str) else expr_text(m, sources) for m in a.more]
    inside = f"{'DISTINCT ' if a.distinct else ''}{', '.join(args)}"
    if a.order:
        inside += " ORDER BY " + ", ".join(f"{expr_text(e, sources)}{words}" for e, words in a.order)
    return f"{a.func}({inside})" + (f" FILTER (WHERE {expr_text(a.where, sources)})" if a.where is not None else "")


def source_text(source: Source) -> str:
    alias = f" AS {source.alias}" if source.alias is not None else ""
    if isinstance(source, Windowed):
        return f"{source.source} [{source.window.text}]{alias}"
    if isinstance(source, Named):
        return f"{source.query}{alias}"
    return f"({body_text(source.body)}){alias}" if isinstance(source, Derived) else ""


def select_text(s: Select) -> str:
    def text(e: Expr) -> str:
        return expr_text(e, s.sources)

    items = "*" if s.star else ", ".join(text(e) + (f" AS {n}" if n is not None else "") for e, n in s.items)
    out = f"SELECT {'DISTINCT ' if s.distinct else ''}{items} FROM {source_text(s.sources[0])}"
    for source, on in zip(s.sources[1:], s.ons, strict=True):
        out += f", {source_text(source)}" if on is None else f" JOIN {source_text(source)} ON {text(on)}"
    if s.where is not None:
        out += f" WHERE {text(s.where)}"
    if s.group:
        out += " GROUP BY " + ", ".join(text(g) for g in s.group)
    if s.having is not None:
        out += f" HAVING {text(s.having)}"
    return out if s.first is None else out + first_text(s.first, names_of(s))


def names_of(s: Select) -> list[str]:
    """Returns the names of the output columns; empty if they repeat."""
    names = []
    for e, name in s.items:
        part = e.parts[0]
        names.append(name or (s.sources[part.item].cols[part.col].name if isinstance(part, Ref) else ""))
    return names if len(set(names)) == len(names) and not s.distinct else []


def first_text(first: First, names: list[str]) -> str:
    if names and first.by and first.order and not first.offset:  # the same in other words
        by, keys = ", ".join(names[k] for k in first.by), ", ".join(f"{names[k]}{words}" for k, words in first.order)
        return f" QUALIFY ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {keys}) <= {first.limit}"
    out = " ORDER BY " + ", ".join(f"{k + 1}{words}" for k, words in first.order) if first.order else ""
    out += f" LIMIT {first.limit}" + (f" OFFSET {first.offset}" if first.offset else "")
    return out + (f" BY ({', '.join(str(k + 1) for k in first.by)})" if first.by else "")


def body_text(body: Body) -> str:
    """Writes a body, with parentheses where SQL's precedence (INTERSECT first, else from the left) needs them, and in
    some other places."""
    if isinstance(body, Select):
        return select_text(body)
    if isinstance(body, Text):
        return body.template.format(
            *(f"{s.source} [{s.window.text}]" if s.window.text else s.source for s in body.sources)
        )
    left, right = body_text(body.left), body_text(body.right)
    intersects = body.op.startswith("INTERSECT")
    spare = len(left) % 4 == 0
    if (
        spare
        or _has_first(body.left)
        or (isinstance(body.left, SetOp) and intersects and not body.left.op.startswith("INTERSECT"))
    ):
        left = f"({left})"
    if (
        spare
        or _has_first(body.right)
        or (isinstance(body.right, SetOp) and (intersects or not body.right.op.startswith("INTERSECT")))
    ):
        right = f"({right})"
    return f"{left} {body.op} {right}"


def _has_first(body: Body) -> bool:
    return isinstance(body, Select) and body.first is not None


def query_text(q: Query) -> str:
    text = body_text(q.body)
    if q.kind is not None:
        text = f"{q.kind}{q.every_text}({text})"
    clauses = f" {q.clauses}" if q.clauses else ""
    return f"CREATE QUERY {q.name}{clauses} AS\n  {text};"


def stream_text(s: Stream) -> str:
    cols = ", ".join(f"{c.name} {c.type}" for c in s.cols)
    clauses = f" {s.clauses}" if s.clauses else ""
    if s.table:
        return f"CREATE TABLE {s.name} ({cols}) FROM csv (path = '{s.name}.csv');"
    return (
        f"CREATE STREAM {s.name} ({cols}) TIMESTAMP BY {s.cols[s.ts].name}\n  FROM csv (path = "
        f"'{s.name}.csv'){clauses};"
    )


def lowered(text: str) -> str:
    """Puts keywords in lower case, and leaves text in quotes unchanged."""
    parts = re.split("('(?:[^']|'')*')", text)
    return "".join(p if k % 2 else p.lower() for k, p in enumerate(parts))


def app_text(app: App) -> str:
    head = f"-- random app, seed {app.seed}"
    text = "\n".join([head, *map(stream_text, app.streams), *map(query_text, app.queries)]) + "\n"
    return lowered(text) if app.seed % 10 == 3 else text


def write_app(app: App, directory: Path) -> Path:
    """Writes the csv files and `app.cql` into `directory`. Returns the path of the app file."""
    directory.mkdir(parents=True, exist_ok=True)
    for k, stream in enumerate(app.streams):
        text = csv_text(stream, CSV_STYLES[(app.seed + k) % len(CSV_STYLES)])
        (directory / f"{stream.name}.csv").write_text(text, encoding="utf-8", newline="")
    path = directory / "app.cql"
    path.write_text(app_text(app), encoding="utf-8", newline="")
    return path
