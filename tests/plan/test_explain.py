"""Compares `explain` with golden files: an app (`golden/NAME.sql`) and its expected plan (`golden/NAME.txt`).

`KIGEN_GOLDEN=write` rewrites the files; look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kigen.plan import bind, load_app
from kigen.plan.explain import explain, shared_numbers, tree_walk
from kigen.plan.logical import App, Scan, Window
from kigen.plan.tasks import extract_tasks

GOLDEN = Path(__file__).with_name("golden")
APPS = sorted(GOLDEN.glob("*.sql"))


@pytest.mark.parametrize("path", APPS, ids=lambda p: p.stem)
def test_text_is_the_golden_one(path: Path) -> None:
    text = explain(load_app(path))
    expected = path.with_suffix(".txt")
    if os.environ.get("KIGEN_GOLDEN") == "write":
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


@pytest.fixture(params=APPS, ids=lambda p: p.stem)
def app(request: pytest.FixtureRequest) -> App:
    return load_app(request.param)


def test_json_names_every_query_task_and_node(app: App) -> None:
    told = json.loads(explain(app, "json"))
    assert [q["name"] for q in told["queries"]] == [q.name for q in app.queries]
    assert [t["queries"] for t in told["tasks"]] == [[q.name for q in t.queries] for t in extract_tasks(app)]
    ids = {n["id"] for n in told["nodes"]}
    assert (
        len(ids)
        == len(told["nodes"])
        == len({n for t in extract_tasks(app) for q in t.queries for n in tree_walk(q.root)})
    )
    assert all(i in ids for n in told["nodes"] for i in n["inputs"])


def test_json_tells_slices_groups_and_weights() -> None:
    told = json.loads(explain(load_app(GOLDEN / "shared.sql"), "json"))
    by_range, by_rows = told["shared_joins"]
    assert told["nodes"][by_range["node"]]["operator"] == "SharedJoin"
    assert [(s["to"], s["group"], len(s["queries"])) for s in by_range["slices"]] == [
        (5_000_000, 1, 4),
        (10_000_000, 1, 3),
        (60_000_000, 2, 2),
        (90_000_000, 2, 1),
    ]
    assert by_range["groups"][0] == {"slices": [1, 2], "weight": pytest.approx(0.2)}
    assert (by_rows["windows"], by_rows["order"]) == ("rows", "1,2")
    assert (by_range["together"], by_rows["together"]) == (
        "its windows do not hold one another",
        "its windows are ROWS",
    )


PAIR = "FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"a.k, b.k AS m": "COUNT(*) AS n"}, None),  # everything else that it reads are windows on the same streams
        ({"RANGE 5 SECONDS": "ROWS 5", "RANGE 9 SECONDS": "ROWS 9"}, "its windows are ROWS"),
        ({"a [RANGE 9 SECONDS]": "a [RANGE 2 SECONDS]"}, "its windows do not hold one another"),
        ({"a [RANGE 5 SECONDS], b [RANGE 5": "a [RANGE 9 SECONDS], b [RANGE 5"}, "all its windows reach as far"),
        (
            {"CREATE QUERY q1": "CREATE QUERY q2 AS SELECT * FROM q0 UNION ALL SELECT * FROM q1; CREATE QUERY q1"},
            "a query of the task",
        ),
        ({"k BIGINT)": "k BIGINT, t TIMESTAMP) TIMESTAMP BY t"}, "with TIMESTAMP BY"),
        (
            {
                "synthetic (rate = 1, k = 'sequence')": "csv (path = 'x')",
                "k BIGINT)": "k BIGINT, t TIMESTAMP) TIMESTAMP BY t",
            },
            "files and",
        ),
    ],
)
def test_whether_slices_can_run_apart(changes: dict[str, str], why: str | None) -> None:
    streams = "".join(f"CREATE STREAM {s} (k BIGINT) FROM synthetic (rate = 1, k = 'sequence');" for s in "ab")
    text = streams + "".join(
        f"CREATE QUERY q{i} AS SELECT a.k, b.k AS m {PAIR.format(w)};" for i, w in enumerate((5, 9))
    )
    for old, new in changes.items():
        text = text.replace(old, new)
    (join,) = json.loads(explain(bind(text), "json"))["shared_joins"]
    assert join["together"] is None if why is None else join["together"].startswith(why)
    assert ("slices run one after the other under --policy mqt" in explain(bind(text))) is (why is None)


def test_mermaid_declares_what_it_draws(app: App) -> None:
    lines = explain(app, "mermaid").splitlines()
    assert lines[0] == "flowchart TD"
    declared = {m[1] for line in lines if (m := re.match(r"\s+(\w+)[\[(]", line))}
    arrows = [m.groups() for line in lines if (m := re.match(r"\s+(\w+) --> (\w+)$", line))]
    assert arrows
    assert {name for arrow in arrows for name in arrow} <= declared
    assert sum(line.strip() == "end" for line in lines) == len(extract_tasks(app))


def test_a_format_that_is_none_says_which_there_are(app: App) -> None:
    with pytest.raises(ValueError, match="text, json, mermaid; got 'xml'"):
        explain(app, "xml")


STREAM = "CREATE STREAM s (a BIGINT, b DOUBLE) FROM synthetic (rate = 1);"


def test_queries_that_differ_in_spelling_only_are_one_plan() -> None:
    app = bind(
        f"""{STREAM}
        CREATE QUERY p AS SELECT a + 1 AS n, b FROM s [RANGE 1 MINUTES] WHERE b > 2 /* yes */;
        CREATE QUERY q AS select z.A+1 as m, z.b as c from S [RANGE 60 SECONDS] as z where z.b>2;"""
    )
    p, q = app.queries
    assert p.root == q.root
    assert hash(p.root) == hash(q.root)
    assert ([c.name for c in p.schema], [c.name for c in q.schema]) == (["n", "b"], ["m", "c"])
    assert len(extract_tasks(app)) == 1


def test_different_conditions_share_the_window_only() -> None:
    app = bind(
        f"{STREAM} CREATE QUERY p AS SELECT a FROM s [ROWS 5] WHERE b > 2; CREATE QUERY q AS SELECT a FROM s [ROWS "
        "5] WHERE b > 3;"
    )
    assert [type(n) for n in shared_numbers(app)] == [Window]
    assert [t.queries for t in extract_tasks(app)] == [app.queries]


def test_reading_one_stream_is_not_sharing() -> None:
    app = bind(f"{STREAM} CREATE QUERY p AS SELECT a FROM s [ROWS 5]; CREATE QUERY q AS SELECT a FROM s [ROWS 6];")
    assert shared_numbers(app) == {}
    assert len(extract_tasks(app)) == 2
    assert all(isinstance(n, Scan | Window) for q in app.queries for n in q.root.children)
