"""Values of all types come back unchanged from csv, JSON lines and parquet, and misfits are bad rows."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors.casting import convert_texts
from kigen.connectors.csv.lines import csv_lines
from kigen.connectors.csv.rows import header_of, rows_of_csv
from kigen.connectors.json_messages import value_texts
from kigen.connectors.jsonl.rows import rows_of_json
from kigen.connectors.text_files import Span
from kigen.connectors.values.arrow_types import cast_lossless, type_of_arrow
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.type_texts import declared_type
from kigen.plan.types import Column, Type

VALUES = {
    "DECIMAL(9,2)": [Decimal("0.05"), None, Decimal("-9999999.99")],
    "DECIMAL(38,38)": [Decimal("0.00000000000000000000000000000000000001"), None, Decimal(0)],
    "DATE": [date(1, 1, 1), None, date(9999, 12, 31)],
    "TIME": [time(0, 0), None, time(23, 59, 59, 999999)],
    "UUID": ["123e4567-e89b-12d3-a456-426614174000", None, "00000000-0000-0000-0000-000000000000"],
    "BLOB": [b"\x00\xff", None, b"abc"],
    "BIGINT[]": [[1, None, 2**63 - 1], None, []],
    "STRUCT(x DECIMAL(5,1), y STRING[])": [{"x": Decimal("0.5"), "y": ['a,"b"']}, None, {"x": None, "y": None}],
}


def typed(kind: str) -> Type:
    found = declared_type(kind)
    assert found is not None
    return found


def stream_of(kind: str) -> SourceStream:
    return SourceStream("s", (Column("v", typed(kind)), Column("n", Type.BIGINT)), Connector("csv", ()), None)


@pytest.mark.parametrize("kind", VALUES)
def test_csv_and_json_give_back_what_they_were_given(kind: str) -> None:
    stream, values = stream_of(kind), pa.array(VALUES[kind], typed(kind).arrow)
    numbers, end = pa.chunked_array([[1, 2, 3]]), pa.chunked_array([pa.array([0, 0, 0], pa.timestamp("us"))])
    text = b"v,n,end\n" + b"".join(csv_lines([pa.chunked_array([values]), numbers, end]))
    header = header_of(text, stream, "f")
    found = rows_of_csv(Span("f", text[header.byte :], header.line), header, stream, None, "f").table
    assert found.column("c0").to_pylist() == values.to_pylist()
    lines = "".join(f'{{"v":{v},"n":{i}}}\n' for i, v in enumerate(value_texts(values).to_pylist()))
    read = rows_of_json(Span("f", lines.encode(), 1), stream, None, "f").table
    assert read.column("c0").to_pylist() == values.to_pylist()


@pytest.mark.parametrize("kind", VALUES)
def test_parquet_gives_back_what_it_was_given(kind: str, tmp_path: Path) -> None:
    values = pa.array(VALUES[kind], typed(kind).arrow)
    pq.write_table(pa.table({"v": values}), tmp_path / "v.parquet")
    found = pq.read_table(tmp_path / "v.parquet").column("v").combine_chunks()
    assert cast_lossless(found, typed(kind)).to_pylist() == values.to_pylist()
    assert type_of_arrow(found.type) is (Type.STRING if kind == "UUID" else typed(kind))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DECIMAL(4,2)", "100.00"), ("DECIMAL(4,2)", "1.005"), ("DECIMAL(4,2)", "NaN"), ("DATE", "2026-02-30"),
        ("DATE", "2026-1-1"), ("TIME", "24:00:00"), ("UUID", "123e4567"), ("BLOB", "?"), ("BIGINT[]", "[1.5]"),
        ("BIGINT[]", "{}"), ("STRUCT(x DECIMAL(3,1))", '{"x": 1.23}'),
    ],
)  # fmt: skip
def test_a_misfit_is_found_and_its_neighbours_are_kept(kind: str, text: str) -> None:
    good = {"DECIMAL": "1.5", "DATE": "2026-01-31", "TIME": "10:00", "UUID": str(VALUES["UUID"][0]), "BLOB": "YWJj"}
    ok = good.get(typed(kind).kind, "[1]" if kind.endswith("[]") else '{"x": 1.2}')
    values, misfits = convert_texts(pa.array([ok, text, ok]), typed(kind))
    assert misfits.tolist() == [1]
    assert values[0].is_valid
    assert values[2].is_valid
