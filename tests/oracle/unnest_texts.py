"""Draws bodies with UNNEST in FROM. Streams of random apps have no lists, so the lists are made of their columns."""

from __future__ import annotations

from oracle.join_texts import JoinTexts, Named
from oracle.shapes import Col, Windowed


class UnnestTexts(JoinTexts):
    def list_of(self, named: Named) -> tuple[str, Col]:
        """Draws a list, which may be NULL or empty, and its elements."""
        rng = self.rng
        alias, source = named
        col = rng.choice(source.cols)
        same = [f"{alias}.{c.name}" for c in source.cols if c.type == col.type]
        drawn = [f"[{', '.join(rng.choices(same, k=rng.randint(1, 3)))}]" for _ in range(2)]
        text, roll = drawn[0], rng.random()
        if roll < 0.4:
            text = f"CASE WHEN {self.own(named)} THEN {drawn[0]} ELSE {drawn[1]} END"
        elif roll < 0.6:
            text = f"CASE WHEN {self.own(named)} THEN {drawn[0]} END"
        elif roll < 0.75:
            text = f"CASE WHEN {self.own(named)} THEN {drawn[0]} ELSE list_sort({drawn[1]})[5:4] END"
        same_type = [c for c in source.cols if c.type == col.type]
        return text, Col("item", col.type, max(c.bits for c in same_type), all(c.dyadic for c in same_type))

    def unnested(self) -> tuple[str, tuple[Col, ...]]:
        rng = self.rng
        text, named = self.source("a")
        visible = [named]
        far = rng.random() < 0.3
        if far:
            more, other = self.source("b")
            text += f", {more}" if rng.random() < 0.5 else f" JOIN {more} ON {self.condition(named, other)}"
            visible.append(other)
        listed, element = self.list_of(rng.choice(visible))
        join = rng.choice((", ", " CROSS JOIN "))
        text += f"{join}UNNEST({listed}) AS u(item)"
        elements: Named = ("u", Windowed(named[1].source, named[1].window, None, (element,)))
        if rng.random() < 0.2:
            again, second = self.list_of(named)
            text += f", UNNEST({again}) AS v(item)"
            visible.append(("v", Windowed(named[1].source, named[1].window, None, (second,))))
        if rng.random() < 0.4 and not far:
            more, last = self.source("c")
            text += f" {rng.choice(('', 'LEFT '))}JOIN {more} ON {self.condition(elements, last)}"
            visible.append(last)
        visible.append(elements)
        where = f" WHERE {self.own(rng.choice(visible))}" if rng.random() < 0.4 else ""
        if rng.random() < 0.25:
            cols = (Col("x", element.type, element.bits, element.dyadic), Col("n", "BIGINT", 16))
            return f"SELECT u.item AS x, COUNT(*) AS n FROM {text}{where} GROUP BY u.item", cols
        items, cols = self.items(visible)
        return f"SELECT {rng.choice(('', '', 'DISTINCT '))}{items} FROM {text}{where}", cols
