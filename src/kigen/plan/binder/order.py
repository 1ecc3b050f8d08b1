"""Binds ORDER BY ... LIMIT n [OFFSET m], LIMIT n BY (column, ...) and QUALIFY ROW_NUMBER(): the relation of the first
rows.

The keys are over the output columns: a name, a number, an item as it was written, or an expression of output columns.
Invariant: the order is complete. After the keys come all output columns, ascending, NULLs last, so that the first rows
are the same however the input was cut.
"""

from __future__ import annotations

from sqlglot import exp

from kigen.language.app_text import Source, Span
from kigen.language.errors import CqlError, suggest
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.expressions.binding import check_scalar, place_of, resolve, typed
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Expr, PlanNode, Project, SortKey, TopN

LARGEST_LIMIT = 10**9
_LEAST: dict[type[exp.Expr], int] = {exp.LTE: 0, exp.LT: 1, exp.EQ: 0}  # what QUALIFY may compare with, less 1


def first_rows(catalog: Catalog, node: exp.Expr, relation: Relation) -> Relation:
    """Applies the ORDER BY, LIMIT and OFFSET of a SELECT, a set operation or a sub-query to its relation."""
    return _Order(catalog.source, node, relation).bind()


def first_of_groups(source: Source, select: exp.Select, relation: Relation) -> Relation:
    """Applies a QUALIFY that takes the first rows of each group (kigen.plan.binder.over.qualify)."""
    return _Order(source, select, relation).qualified(select.args["qualify"].this)


class _Order:
    def __init__(self, source: Source, node: exp.Expr, relation: Relation) -> None:
        self.source, self.node, self.relation = source, node, relation
        self.extra: list[Expr] = []  # keys that are not just output columns

    def bind(self) -> Relation:
        order, limit, offset = (self.node.args.get(part) for part in ("order", "limit", "offset"))
        if limit is None:
            if order is not None:
                hint = "write ORDER BY ... LIMIT n, or leave ORDER BY out"
                raise self._error(self._words(order, "ORDER"), "ORDER BY needs LIMIT: a relation has no order", hint)
            if offset is not None:
                raise self._error(self._words(offset, "OFFSET"), "OFFSET needs LIMIT", "write LIMIT n OFFSET m")
            return self.relation
        if isinstance(limit, exp.Fetch) or limit.args.get("limit_options"):
            raise self._error(place_of(self.source, limit), "LIMIT takes a number of rows", "write LIMIT n")
        count, skipped = self._number(limit, "LIMIT", 1), 0 if offset is None else self._number(offset, "OFFSET", 0)
        groups = [*limit.expressions, *(offset.expressions if offset is not None else ())]
        return self._top(count, skipped, _flat(groups), order.expressions if order is not None else [])

    def qualified(self, condition: exp.Expr) -> Relation:
        """Applies QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= n: the first n rows of each group."""
        window, least = condition.this, _LEAST[type(condition)]
        number = self._number(condition, "ROW_NUMBER() <=", 1 + least) - least
        if isinstance(condition, exp.EQ) and number > 1:
            return self._top(1, number - 1, window.args.get("partition_by") or [], window.args["order"].expressions)
        return self._top(number, 0, window.args.get("partition_by") or [], window.args["order"].expressions)

    def _top(self, count: int, skipped: int, groups: list[exp.Expr], order: list[exp.Ordered]) -> Relation:
        by = tuple(dict.fromkeys(self._group(column) for column in groups))
        keys = [found for key in order for found in self._keys(key)]
        width = len(self.relation.names)
        keys += [SortKey(column) for column in range(width)]
        node = self._widened()
        seen: dict[int, SortKey] = {}
        for key in keys:
            seen.setdefault(key.column, key)
        top: PlanNode = TopN(node, tuple(seen.values()), count, skipped, by)
        if self.extra:
            top = Project(top, tuple(bare(node.schema, i) for i in range(width)), self.relation.names)
        return Relation(top, self.relation.names)

    def _widened(self) -> PlanNode:
        node = self.relation.node
        if not self.extra:
            return node
        own = [bare(node.schema, i) for i in range(len(node.schema))]
        return Project(node, (*own, *self.extra), (*self.relation.names, *(e.text for e in self.extra)))

    # --- keys -----------------------------------------------------------------------------------------------------

    def _keys(self, key: exp.Ordered) -> list[SortKey]:
        every = isinstance(key.this, exp.Var) and key.this.name.upper() == "ALL"
        columns = range(len(self.relation.names)) if every else [self._column(key.this)]
        return [SortKey(c, bool(key.args.get("desc")), bool(key.args.get("nulls_first"))) for c in columns]

    def _column(self, node: exp.Expr) -> int:
        found = self._output(node, "ORDER BY")
        if found is not None:
            return found
        scope = Scope(self.source)
        scope.add(None, self.relation, None, place_of(self.source, node))
        check_scalar(self.source, node, "ORDER BY")
        for column in node.find_all(exp.Column):
            if column.args.get("table") or scope.find(column) is None:
                raise self._unknown(column)
        self.extra.append(typed(resolve(scope, node, clause="ORDER BY"), self.relation.types))
        return len(self.relation.names) + len(self.extra) - 1

    def _group(self, node: exp.Expr) -> int:
        found = self._output(node, "LIMIT ... BY")
        if found is None:
            raise self._unknown(node)
        return found

    def _output(self, node: exp.Expr, clause: str) -> int | None:
        """Returns the output column that a name, a number or the text of an item stands for; None if there is none."""
        names = [name.lower() for name in self.relation.names]
        if isinstance(node, exp.Literal) and not node.is_string:
            at = int(node.name) if node.name.isdigit() else 0
            if not 1 <= at <= len(names):
                hint = f"write a number from 1 to {len(names)}, or a name"
                raise self._error(place_of(self.source, node), f"{clause} {node.name} is not an output column", hint)
            return at - 1
        items = self.node.expressions if isinstance(self.node, exp.Select) else []
        plain = [item.this if isinstance(item, exp.Alias) else item for item in items]
        stars = any(isinstance(i.this if isinstance(i, exp.Column) else i, exp.Star) for i in plain)
        texts = [] if stars else [self._text(item) for item in plain]
        if self._text(node) in texts:
            return texts.index(self._text(node))
        if isinstance(node, exp.Column) and names.count(node.name.lower()) >= 1:
            at = names.index(node.name.lower())
            table = node.args.get("table")
            if table is None or stars or (at < len(plain) and not plain[at].args.get("table")):
                return at
        return None

    def _text(self, node: exp.Expr) -> str:
        return " ".join(token.text.lower() for token in self.source.tokens_in(place_of(self.source, node)))

    def _unknown(self, node: exp.Expr) -> CqlError:
        name = self.source.slice(place_of(self.source, node))
        hint = f"add {name} to SELECT; {suggest(name, self.relation.names, 'output columns')}"
        return self._error(place_of(self.source, node), f"{name} is not an output column", hint)

    # --- numbers and places ---------------------------------------------------------------------------------------

    def _number(self, clause: exp.Expr, word: str, least: int) -> int:
        value = clause.expression
        text = value.name.replace("_", "") if isinstance(value, exp.Literal) and not value.is_string else ""
        if not text.isdigit() or not least <= int(text) <= LARGEST_LIMIT:
            message = f"{word} needs a whole number from {least} to {LARGEST_LIMIT:,}"
            raise self._error(place_of(self.source, value), message, f"write {word} 10")
        return int(text)

    def _words(self, clause: exp.Expr, first: str) -> Span:
        """Returns the place of the keyword that begins a clause."""
        inner = place_of(self.source, clause)
        before = [t for t in self.source.tokens_in((0, inner[0] + 1)) if t.text.upper().startswith(first)]
        return (before[-1].start, before[-1].end + 1) if before else inner

    def _error(self, span: Span, message: str, hint: str) -> CqlError:
        return self.source.error(span, message, hint)


def _flat(nodes: list[exp.Expr]) -> list[exp.Expr]:
    """Takes the columns out of `(a, b)`, `(a)` and `a`."""
    found: list[exp.Expr] = []
    for node in nodes:
        inner = node.this if isinstance(node, exp.Paren) else node
        found += inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    return found
