"""Describes the connector postgres."""

from __future__ import annotations

from kigen.plan.connectors.option_kinds import PATH, text
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "postgres",
    {
        "table": text("the name of a table in 'single quotes'", "'results'"),
        "url_env": text("the name of an environment variable in 'single quotes'", "'PG_URL'"),
        "url_file": PATH,
    },
    "table",
    sink="kigen.connectors.postgres.sink:PostgresSink",
    table="kigen.connectors.postgres.table:open_table",
    is_table=True,
    modes=("append", "current"),
    needs=(("url_env", "url_file"),),
    extra="postgres",
)
