"""Types in the plans that a checkpoint keeps: they come back as the same objects, also from the form of older plans."""

from __future__ import annotations

import pytest

from kigen.plan.changes.stored_plans import StoredPlanError, from_json, to_json
from kigen.plan.type_texts import declared_type
from kigen.plan.types import Column, Type


@pytest.mark.parametrize("text", ["BIGINT", "DECIMAL(9, 2)", "DATE[]", 'STRUCT(x UUID, "a b" TIME[])'])
def test_a_stored_type_is_read_as_the_same_object(text: str) -> None:
    column = Column("c", declared_type(text) or Type.STRING)
    assert column.type is not Type.STRING
    assert from_json(to_json(column)).type is column.type


def test_types_of_older_plans_are_read() -> None:
    old = {"parts": [], "root": {"enum": "kigen.plan.types:Type", "is": "DOUBLE"}}
    assert from_json(old) is Type.DOUBLE
    with pytest.raises(StoredPlanError, match="the type FOO"):
        from_json({"parts": [], "root": {"type": "FOO"}})
