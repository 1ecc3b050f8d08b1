"""Draws random typed expressions that cannot fail: no division by zero, no overflow, no cast of text that is not a
number.

Each expression carries a bound (`bits`), so that products and sums stay inside BIGINT, and sums of dyadic doubles stay
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from oracle.shapes import Agg, Col, Expr, Part, Ref

MOST_ROWS_BITS = 13  # no relation holds more than 2**13 rows
COMPARE = ("=", "<>", "<", "<=", ">", ">=", "!=")
PATTERNS = ("'a%'", "'%b'", "'_'", "'%''%'", "'%\n%'", "''", "'%'", "'ü'", "'_a'", "'a_'", "'%日%'")
LITERAL_TEXTS = ("'a'", "'b'", "''", "'ü'", "'O''Brien'", "'日本'", "'zzz'", "'NULL'", "'line\nbreak'")


def joined(kind: str, *pieces: Part | Expr, bits: int = 8, dyadic: bool = True, noisy: bool = False) -> Expr:
    parts: list[Part] = []
    for piece in pieces:
        if isinstance(piece, Expr):
            parts.extend(piece.parts)
            noisy = noisy or piece.noisy
        else:
            parts.append(piece)
    return Expr(kind, tuple(parts), bits, dyadic, noisy)


class Expressions:
    """Draws expressions over the columns of the FROM items in scope."""

    def __init__(self, rng: Random, scope: Sequence[Sequence[Col]], unit: int, base: int) -> None:
        self.rng, self.scope, self.unit, self.base = rng, scope, unit, base
        names = [c.name for cols in scope for c in cols]
        self.unique = {n for n in names if names.count(n) == 1}

    # --- columns and literals -------------------------------------------------------------------------------------

    def ref(self, item: int, col: int) -> Expr:
        c = self.scope[item][col]
        qualified = c.name not in self.unique or self.rng.random() < 0.5
        return Expr(c.type, (Ref(item, col, qualified),), c.bits, c.dyadic, c.noisy)

    def places(self, kind: str, item: int | None = None) -> list[tuple[int, int]]:
        items = range(len(self.scope)) if item is None else (item,)
        return [(i, j) for i in items for j, c in enumerate(self.scope[i]) if c.type == kind]

    def column(self, kind: str, item: int | None = None) -> Expr | None:
        places = self.places(kind, item)
        return self.ref(*self.rng.choice(places)) if places else None

    def any_column(self) -> Expr:
        item = self.rng.randrange(len(self.scope))
        return self.ref(item, self.rng.randrange(len(self.scope[item])))

    def literal(self, kind: str) -> Expr:
        rng = self.rng
        if kind == "BIGINT":
            return joined(kind, str(rng.randint(0, 5)), bits=3)
        if kind == "DOUBLE":
            return joined(kind, rng.choice(("0.5", "1.25", "2.0", "0.0", "10.75")), bits=10)
        if kind == "STRING":
            return joined(kind, rng.choice(LITERAL_TEXTS))
        if kind == "BOOLEAN":
            return joined(kind, rng.choice(("TRUE", "FALSE")))
        t = self.base + rng.randint(-2, 6) * self.unit
        return joined(kind, timestamp_literal(t, rng.random() < 0.5))

    # --- by type --------------------------------------------------------------------------------------------------

    def draw(self, kind: str, depth: int = 2) -> Expr:
        column = self.column(kind)
        if column is not None and (depth <= 0 or self.rng.random() < 0.45):
            return column
        if depth <= 0 or (column is None and self.rng.random() < 0.5):
            return self.literal(kind)
        makers: dict[str, Callable[[int], Expr]] = {
            "BIGINT": self._bigint,
            "DOUBLE": self._double,
            "STRING": self._string,
            "BOOLEAN": self.predicate,
            "TIMESTAMP": self._timestamp,
        }
        return makers[kind](depth)

    def _choice_of(self, kind: str, depth: int) -> Expr:
        """Draws CASE, COALESCE or NULLIF of any type."""
        rng = self.rng
        a, b = self.draw(kind, depth - 1), self.draw(kind, depth - 1)
        bits, dyadic = max(a.bits, b.bits), a.dyadic and b.dyadic
        roll = rng.random()
        if roll < 0.35:
            return joined(kind, "COALESCE(", a, ", ", b, ")", bits=bits, dyadic=dyadic)
        if roll < 0.45:
            return joined(kind, "NULLIF(", a, ", ", b, ")", bits=bits, dyadic=dyadic)
        if roll < 0.55 and kind != "BOOLEAN":
            return joined(kind, rng.choice(("GREATEST(", "LEAST(")), a, ", ", b, ")", bits=bits, dyadic=dyadic)
        if roll < 0.75 and (subject := self.column(rng.choice(("BIGINT", "STRING")))) is not None:
            when = self.literal(subject.type)
            return joined(
                kind, "CASE ", subject, " WHEN ", when, " THEN ", a, " ELSE ", b, " END", bits=bits, dyadic=dyadic
            )
        otherwise = joined(kind, " ELSE ", b) if rng.random() < 0.7 else joined(kind, "")
        return joined(
            kind, "CASE WHEN ", self.predicate(depth - 1), " THEN ", a, otherwise, " END", bits=bits, dyadic=dyadic
        )

    def _bigint(self, depth: int) -> Expr:
        rng = self.rng
        a = self.draw("BIGINT", depth - 1)
        b = self.draw("BIGINT", depth - 1)
        roll = rng.random()
        if roll < 0.3 and self._wide(a) and max(a.bits, b.bits) < 60:
            return joined("BIGINT", "(", a, rng.choice((" + ", " - ")), b, ")", bits=max(a.bits, b.bits) + 1)
        if roll < 0.4 and self._wide(a) and a.bits + b.bits < 60:
            return joined("BIGINT", "(", a, " * ", b, ")", bits=a.bits + b.bits)
        if roll < 0.5:
            return joined("BIGINT", "(", a, " % ", str(rng.choice((2, 3, 7))), ")", bits=3)
        if roll < 0.6 and a.bits < 60:
            return joined("BIGINT", rng.choice(("ABS(", "-(")), a, ")", bits=a.bits)
        if roll < 0.75 and (s := self.column("STRING")) is not None:
            return joined("BIGINT", "LENGTH(", s, ")", bits=5)
        if roll < 0.82 and (d := self.column("DOUBLE")) is not None and d.bits < 40:
            return joined("BIGINT", "CAST(", d, " AS BIGINT)", bits=d.bits)
        return self._choice_of("BIGINT", depth)

    @staticmethod
    def _wide(e: Expr) -> bool:
        """Whether DuckDB computes in 64 bits. A bare literal or a CASE of literals is narrower, and its product may
        overflow."""
        return len(e.parts) == 1 and isinstance(e.parts[0], Ref)

    def _double(self, depth: int) -> Expr:
        rng = self.rng
        a = self.draw("DOUBLE", depth - 1)
        b = self.draw("DOUBLE", depth - 1)
        dyadic = a.dyadic and b.dyadic
        roll = rng.random()
        if roll < 0.25 and max(a.bits, b.bits) < 38:
            return joined(
                "DOUBLE", "(", a, rng.choice((" + ", " - ")), b, ")", bits=max(a.bits, b.bits) + 3, dyadic=dyadic
            )
        if roll < 0.35 and a.bits + b.bits < 36 and self._wide(a):
            return joined("DOUBLE", "(", a, " * ", b, ")", bits=a.bits + b.bits, dyadic=dyadic)
        if roll < 0.45:
            by = rng.choice(("2", "4", "3", "10"))
            return joined("DOUBLE", "(", a, " / ", by, ")", bits=a.bits + 3, dyadic=a.dyadic and by in "24")
        if roll < 0.55 and (i := self.column("BIGINT")) is not None:
            return joined("DOUBLE", "(", i, " / ", rng.choice(("2", "3", "8")), ")", bits=i.bits + 3, dyadic=False)
        if roll < 0.65 and (i := self.column("BIGINT")) is not None:
            return joined("DOUBLE", "CAST(", i, " AS DOUBLE)", bits=i.bits, dyadic=i.bits < 40)
        if roll < 0.75:
            return joined(
                "DOUBLE", rng.choice(("ABS(", "FLOOR(", "CEIL(", "ROUND(")), a, ")", bits=a.bits, dyadic=dyadic
            )
        if roll < 0.8:
            return joined("DOUBLE", "ROUND(", a, ", 1)", bits=a.bits + 3, dyadic=False)
        if roll < 0.84:
            return joined("DOUBLE", "SQRT(ABS(", a, "))", bits=a.bits, dyadic=False)
        return self._choice_of("DOUBLE", depth)

    def _string(self, depth: int) -> Expr:
        rng = self.rng
        a, b = self.draw("STRING", depth - 1), self.draw("STRING", depth - 1)
        roll = rng.random()
        if roll < 0.25:
            return joined("STRING", rng.choice(("UPPER(", "LOWER(", "TRIM(", "LTRIM(", "RTRIM(", "REVERSE(")), a, ")")
        if roll < 0.4:
            return joined("STRING", "(", a, " || ", b, ")")
        if roll < 0.47:
            return joined("STRING", "CONCAT(", a, ", ", b, ")")
        if roll < 0.57:
            return joined(
                "STRING", rng.choice(("SUBSTR(", "SUBSTRING(")), a, f", {rng.randint(1, 2)}, {rng.randint(0, 3)})"
            )
        if roll < 0.65:
            return joined("STRING", "REPLACE(", a, ", 'a', ", self.literal("STRING"), ")")
        kind = rng.choice(("BIGINT", "BOOLEAN", "TIMESTAMP", "DOUBLE"))
        if roll < 0.8 and (c := self.column(kind)) is not None:
            return joined("STRING", "CAST(", c, " AS STRING)")
        return self._choice_of("STRING", depth)

    def _timestamp(self, depth: int) -> Expr:
        return self._choice_of("TIMESTAMP", depth)

    # --- predicates -----------------------------------------------------------------------------------------------

    def predicate(self, depth: int = 2) -> Expr:
        rng = self.rng
        roll = rng.random()
        if depth > 0 and roll < 0.2:
            return joined(
                "BOOLEAN", "(", self.predicate(depth - 1), rng.choice((" AND ", " OR ")), self.predicate(depth - 1), ")"
            )
        if depth > 0 and roll < 0.27:
            return joined("BOOLEAN", "NOT (", self.predicate(depth - 1), ")")
        subject = self.any_column()
        if depth > 1 and rng.random() < 0.3:
            subject = self.draw(subject.type, depth - 1)
        if subject.type == "BOOLEAN" and rng.random() < 0.5:
            return subject
        return self.condition(subject)

    def condition(self, subject: Expr, columns: bool = True) -> Expr:
        rng, kind = self.rng, subject.type
        negated = rng.choice(("", "", "NOT "))
        roll = rng.random()
        if roll < 0.12:
            return joined("BOOLEAN", "(", subject, f" IS {negated}NULL)")
        if roll < 0.24 and kind != "BOOLEAN":
            return joined(
                "BOOLEAN",
                "(",
                subject,
                f" {negated}BETWEEN ",
                self.literal(kind),
                " AND ",
                self.other(kind, columns),
                ")",
            )
        if roll < 0.36 and kind != "BOOLEAN":
            last = ", NULL" if rng.random() < 0.1 else ""
            return joined(
                "BOOLEAN", "(", subject, f" {negated}IN (", self.literal(kind), ", ", self.literal(kind), f"{last}))"
            )
        if roll < 0.55 and kind == "STRING":
            return joined("BOOLEAN", "(", subject, f" {negated}LIKE {rng.choice(PATTERNS)})")
        return joined("BOOLEAN", "(", subject, f" {rng.choice(COMPARE)} ", self.other(kind, columns), ")")

    def other(self, kind: str, columns: bool) -> Expr:
        """Draws the value that a value of a type is compared with."""
        if kind in ("BIGINT", "DOUBLE") and self.rng.random() < 0.1:
            kind = "DOUBLE" if kind == "BIGINT" else "BIGINT"
        column = self.column(kind) if columns else None
        return column if column is not None and self.rng.random() < 0.3 else self.literal(kind)

    # --- aggregates -----------------------------------------------------------------------------------------------

    def aggregate(self, kind: str, noise: bool) -> Expr:
        """Draws an aggregate call of type `kind`. `noise` allows results whose last bits depend on the order."""
        rng = self.rng
        if kind == "BIGINT" and rng.random() < 0.5:
            arg = None if rng.random() < 0.5 else self.any_column()
            return joined("BIGINT", Agg("COUNT", arg, "BIGINT"), bits=MOST_ROWS_BITS)
        if kind == "BIGINT" and rng.random() < 0.5:
            arg = self.draw("BIGINT", 1)
            if arg.bits + MOST_ROWS_BITS < 62:
                return joined("BIGINT", Agg("SUM", arg, "BIGINT"), bits=arg.bits + MOST_ROWS_BITS)
        if kind == "DOUBLE" and rng.random() < 0.75:
            func = rng.choice(("SUM", "AVG", "AVG"))
            arg = self.draw("DOUBLE" if func == "SUM" else rng.choice(("DOUBLE", "BIGINT")), 1)
            exact = arg.dyadic and arg.bits + MOST_ROWS_BITS < 52
            if exact or (noise and arg.bits < 20):
                bits, dyadic = arg.bits + MOST_ROWS_BITS, exact and func == "SUM"
                return joined("DOUBLE", Agg(func, arg, "DOUBLE"), bits=bits, dyadic=dyadic, noisy=not exact)
        arg = self.draw(kind, 1)
        return joined(kind, Agg(rng.choice(("MIN", "MAX")), arg, kind), bits=arg.bits, dyadic=arg.dyadic)


COUNT_ALL = joined("BIGINT", Agg("COUNT", None, "BIGINT"), bits=MOST_ROWS_BITS)


def timestamp_literal(us: int, cast: bool) -> str:
    from oracle.render_cql import iso

    text = iso(us).replace("T", " ").rstrip("Z")
    return f"CAST('{text}' AS TIMESTAMP)" if cast else f"TIMESTAMP '{text}'"
