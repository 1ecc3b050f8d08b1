"""Tests of `kigen fmt`: the layout, what it leaves alone, and that formatted apps mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle.generate import generate
from oracle.render_cql import app_text
from oracle.sql_apps import generate_sql

from kigen.cli.format_command import format_files
from kigen.language.formatting import format_app
from kigen.plan import bind
from kigen.plan.explain import explain

GOLDEN = sorted((Path(__file__).parents[1] / "plan" / "golden").glob("*.sql"))

WRITTEN = """-- head
create stream s (k STRING, v BIGINT,ts TIMESTAMP) TIMESTAMP BY ts from csv (path = 'a.csv',
follow = true); -- trailing


-- about q
create query q as select k, count(*)  as n,
  sum(v) from s [RANGE 5 SECONDS]
  -- inner
  where v > -1 and s.key = 'it''s' group by k order by n limit 3;create query r as ISTREAM(select * from q);
/* last */
"""
LAID_OUT = """-- head
CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM csv (path = 'a.csv',
      follow = true); -- trailing

-- about q
CREATE QUERY q AS
  SELECT k, count(*) AS n,
    sum(v)
  FROM s [RANGE 5 SECONDS]
  -- inner
  WHERE v > -1 AND s.key = 'it''s'
  GROUP BY k
  ORDER BY n
  LIMIT 3;
CREATE QUERY r AS
  ISTREAM(SELECT * FROM q);
/* last */
"""


def test_the_layout() -> None:
    assert format_app(WRITTEN) == LAID_OUT
    assert format_app(LAID_OUT) == LAID_OUT


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden_apps_mean_the_same(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    formatted = format_app(text)
    assert explain(bind(formatted)).lower() == explain(bind(text)).lower()
    assert format_app(formatted) == formatted


@pytest.mark.parametrize("seed", range(6))
def test_random_apps_mean_the_same(seed: int) -> None:
    text = app_text(generate(seed) if seed % 2 else generate_sql(seed))
    formatted = format_app(text)
    assert explain(bind(formatted)).lower() == explain(bind(text)).lower()
    assert format_app(formatted) == formatted


def test_broken_text_stays() -> None:
    for text in ("CREATE QUERY q AS SELECT 'x", "", "\n"):
        assert format_app(text).strip() == text.strip()


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "app.cql"
    path.write_text(WRITTEN, encoding="utf-8")
    assert format_files([path], write=False) == [path]
    assert path.read_text(encoding="utf-8") == WRITTEN
    assert format_files([path], write=True) == [path]
    assert format_files([path], write=False) == []
    assert path.read_text(encoding="utf-8") == LAID_OUT


def test_a_parameter_with_the_name_of_a_keyword_stays_whole() -> None:
    text = "CREATE QUERY q AS SELECT a FROM s [NOW] WHERE a > $limit AND a < $from;"
    made = format_app(text)
    assert "WHERE a > $limit AND a < $from;" in made
    assert format_app(made) == made
