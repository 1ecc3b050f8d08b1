"""Describes the connector synthetic: a generated stream."""

from __future__ import annotations

from kigen.plan.connectors.option_kinds import DURATION, INSTANT, OptionKind, matching, one_of, positive, whole
from kigen.plan.connectors.spec import ConnectorSpec

_NUMBER = r"\s*-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\s*"
_GENERATOR = (
    rf"\s*(?:normal\({_NUMBER},{_NUMBER}\)|uniform\({_NUMBER},{_NUMBER}\)|zipf\({_NUMBER},{_NUMBER}\)"
    r"|sequence(?:\(\s*\))?|choice\([^()]+\))\s*"
)
_LISTED = "'normal(20, 5)', 'uniform(0, 100)', 'sequence', 'choice(a, b, c)' or 'zipf(1.2, 1000)'"

SPEC = ConnectorSpec(
    "synthetic",
    {
        "rate": positive("100"),
        "arrivals": OptionKind(
            "'constant', 'poisson' or 'bursty'", one_of("constant", "poisson", "bursty").accepts, "'poisson'"
        ),
        "seed": whole(0, "7"),
        "duration": DURATION,
        "rows": whole(1, "1000"),
        "burst": positive("4"),
        "every": DURATION,
        "lasting": DURATION,
        "phase": DURATION,
        "delay": DURATION,
        "start": INSTANT,
    },
    "rate",
    source="kigen.connectors.synthetic.source:SyntheticSource",
    column_kind=OptionKind(f"a generator: {_LISTED}", matching(_GENERATOR), "'uniform(0, 100)'"),
)
