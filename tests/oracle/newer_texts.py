"""Draws bodies of the newest constructs as text: grouping sets, functions with OVER, lists, UNNEST. Both languages read
the same text, except where DuckDB needs more to give one answer: complete orders."""

from __future__ import annotations

from oracle.join_texts import generate_joins
from oracle.over_texts import OverTexts
from oracle.shapes import App, Col
from oracle.unnest_texts import UnnestTexts


class NewerTexts(OverTexts, UnnestTexts):
    def sets(self) -> tuple[str, tuple[Col, ...]]:
        """Draws GROUPING SETS, ROLLUP and CUBE. Kigen has no row of the empty set while there is no tuple, and DuckDB
        has one: so DuckDB is asked for sets with rows only."""
        rng = self.rng
        text, (_, source) = self.source("a")
        keys = rng.sample(source.cols, min(len(source.cols), rng.choice((1, 2, 2, 3))))
        names = [key.name for key in keys]
        parts: list[str] = []
        if rng.random() < 0.3:
            parts.append(rng.choice(names))
        form = rng.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
        if form == "GROUPING SETS":
            drawn = [rng.sample(names, rng.randint(0, len(names))) for _ in range(rng.randint(1, 3))]
            sets = [f"({', '.join(some)})" for some in drawn]
            if rng.random() < 0.3:
                sets.append(f"ROLLUP ({', '.join(names)})")
            parts.append(f"GROUPING SETS ({', '.join(sets)})")
        elif len(names) > 2 and rng.random() < 0.5:
            parts.append(f"{form} ({names[0]}, ({', '.join(names[1:])}))")
        else:
            parts.append(f"{form} ({', '.join(names)})")
        rng.shuffle(parts)
        used = [key for key in keys if any(key.name in part for part in parts)]
        shown = [*(key.name for key in used), "COUNT(*) AS n", f"GROUPING({', '.join(k.name for k in used)}) AS g"]
        cols = [*used, Col("n", "BIGINT", 16), Col("g", "BIGINT", 8)]
        if not used:
            shown, cols = ["COUNT(*) AS n"], [Col("n", "BIGINT", 16)]
        arg = rng.choice(source.cols)
        shown.append(f"COUNT({rng.choice(('', 'DISTINCT '))}{arg.name}) AS m")
        cols.append(Col("m", "BIGINT", 16))
        having = ["n > 1"] if rng.random() < 0.3 else []
        body = f"SELECT {', '.join(shown)} FROM {text} GROUP BY {', '.join(parts)}"
        self.sql = f"{body} HAVING {' AND '.join(['COUNT(*) > 0', *having])}"
        return (f"{body} HAVING {having[0]}" if having else body), tuple(cols)


DRAWN = ("sets", "numbered", "numbered", "ranked_groups", "lists", "unnested")


def generate_newer(seed: int) -> App:
    """Draws an app of one or two queries with the newest constructs."""
    return generate_joins(seed, DRAWN, NewerTexts)
