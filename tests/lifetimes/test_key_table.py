"""KeyTable against a plain dict, over random batches of assignments and releases."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kigen.lifetimes.keys.key_table import KeyTable

BATCH = st.tuples(st.booleans(), st.lists(st.integers(-20, 20), max_size=30))


@settings(max_examples=200, deadline=None)
@given(st.lists(BATCH, max_size=20), st.integers(0, 19))
def test_slots_are_a_dict(batches: list[tuple[bool, list[int]]], reload_at: int) -> None:
    slots, model = KeyTable(), {}
    for i, (assign, keys) in enumerate(batches):
        array = np.array(keys, dtype=np.int64)
        if assign:
            for key, slot in zip(keys, slots.assign(array)[0].tolist(), strict=True):
                assert model.setdefault(key, slot) == slot
        else:
            held = np.array(sorted({k for k in keys if k in model}), dtype=np.int64)
            slots.release(slots.find(held))
            for key in held.tolist():
                del model[key]
        if i == reload_at:
            state, slots = slots.state(), KeyTable()
            slots.load(state)
        assert len(set(model.values())) == len(model) == len(slots)
        assert slots.find(array).tolist() == [model.get(k, -1) for k in keys]


def test_many_keys_come_and_go_without_growing() -> None:
    slots = KeyTable()
    for i in range(200):
        keys = np.arange(i * 500, (i + 1) * 500)
        slots.release(slots.assign(keys)[0])
    assert len(slots) == 0
    assert slots.capacity < 2000
