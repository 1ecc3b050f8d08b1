"""Holds the numbers in the text of the paper; its figures are lost.

Numbers are shares at a lambda. Differences in points are those of ATS below another policy.
"""

from __future__ import annotations

from typing import Any

POINTS: dict[str, list[dict[str, Any]]] = {
    "ats-batch": [
        {"phi_s": 0.01, "best_k": 5},
        {"phi_s": 0.02, "best_k": 2},
        {"phi_s": 0.1, "best_k": 1},
    ],
    "ats-kp": [{"best_kp": 1.0}],
    "ats-ki": [{"best_ki": 10.0}],
    "ats-overhead": [
        {"order": ["TAAT", "ATS", "BTS"], "says": "TAAT far above; ATS a little above BTS; all fall as lambda grows"}
    ],
    "ats-sdmr-fixed": [
        {"x": 0.5, "ats_below": {"TAAT": 0.30, "BTS": 0.15}},
        {"says": "ATS1 clearly below ATS, BTS1 about as BTS"},
    ],
    "ats-sdmr-random": [
        {"x": 0.4, "sdmr": {"TAAT": 0.40, "BTS": 0.10, "ATS": 0.05}},
        {"x": 0.8, "ats_below": {"TAAT": 0.30, "BTS": 0.10}},
    ],
    "ats-cpu": [{"order": ["TAAT", "ATS", "BTS", "Ideal"]}],
    "ats-sdmr-300": [{"says": "every lambda: ATS 15-20 points below TAAT, 5-15 below BTS; no curve begins at 0"}],
    "ats-zipf": [{"says": "much as with Poisson arrivals"}],
}
