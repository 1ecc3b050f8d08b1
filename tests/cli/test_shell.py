"""Tests of `kigen shell`: statements and queries against a file and against a running app, and completion."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kigen.cli.shell.app_session import AppSession
from kigen.cli.shell.loop import Session, completions, shell
from kigen.cli.shell.served_session import ServedSession
from kigen.engine.errors import ArgumentError

APP = """CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE QUERY q AS SELECT k, SUM(v) AS total FROM s [RANGE 2 SECONDS] GROUP BY k INTO csv (path = 'out.csv');
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("k,v,ts\na,1,2026-01-01T00:00:00Z\na,2,2026-01-01T00:00:01Z\n")
    (tmp_path / "app.cql").write_text(APP)
    return tmp_path / "app.cql"


def said(session: Session, text: str, code: int = 0) -> str:
    out = io.StringIO()
    assert shell(session, io.StringIO(text), out, interactive=False) == code
    return out.getvalue()


def test_queries_and_statements_over_a_file(file: Path) -> None:
    found = said(
        AppSession(file),
        "q;\nSELECT MAX(v)\n  AS top FROM s [UNBOUNDED];\nCREATE VIEW w AS SELECT v FROM s [NOW];\n"
        f"ISTREAM(SELECT v FROM w);\n.show\n.save {file.parent / 'new.cql'}\n",
    )
    assert "a  1      2026-01-01T00:00:00Z  2026-01-01T00:00:01Z" in found
    assert "2    2026-01-01T00:00:01Z  NULL" in found
    assert "2  2026-01-01T00:00:01Z\n2 rows" in found
    assert "stream s (k STRING, v BIGINT, ts TIMESTAMP)" in found
    assert "CREATE VIEW w" in (file.parent / "new.cql").read_text()
    assert not (file.parent / "out.csv").exists()
    assert file.read_text() == APP


def test_errors_leave_the_session_as_it_was(file: Path) -> None:
    session = AppSession(file)
    found = said(session, "SELECT x FROM s [NOW];\nCREATE QUERY r AS SELECT;\nDROP q;\n.dance\nq;\n", code=1)
    assert "unknown column x" in found
    assert "unknown command .dance" in found
    assert found.rstrip().endswith("2 rows")
    assert session.text == APP


def test_a_table_of_spark_is_refused_and_not_empty(file: Path) -> None:
    table = "CREATE TABLE t (k STRING) FROM spark (format = 'parquet', path = 't');\n"
    found = said(AppSession(file), f"{table}SELECT s.k FROM s [NOW] LEFT JOIN t ON s.k = t.k;\n", code=1)
    assert "table 't' is read by Spark" in found


def test_words_are_completed(file: Path) -> None:
    names = AppSession(file).names()
    assert completions("SELECT k FROM s [", "R", names) == ["RANGE", "ROWS"]
    assert completions("SELECT ", "t", names)[-2:] == ["total", "ts"]
    assert completions("", "CRE", names) == ["CREATE"]
    assert "QUERY" in completions("CREATE ", "", names)


@pytest.fixture
def address() -> Iterator[str]:
    answers = {
        "/queries": {"queries": [{"name": "q", "columns": ["k", "total"], "is_stream": False}]},
        "/queries/q": {"query": "q", "columns": ["k", "total"], "rows": [{"k": "a", "total": 3}]},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == "Bearer secret"
            body = json.dumps(answers[self.path]).encode() if allowed else b"who are you?"
            self.send_response(200 if allowed else 401)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_queries_against_a_running_app(address: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    found = said(
        ServedSession(address, tmp_path / "token"),
        "q;\nSELECT total + 1 AS more FROM q;\nSELECT * FROM read_csv('/etc/passwd');\nCREATE VIEW x AS SELECT 1;\n",
        code=1,
    )
    assert "a  3\n1 row" in found
    assert "more\n4\n1 row" in found
    assert "root" not in found
    assert "does not change a running app" in found
    (tmp_path / "token").write_text("other")
    with pytest.raises(ArgumentError, match="401"):
        ServedSession(address, tmp_path / "token")
