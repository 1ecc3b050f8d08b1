"""Finds the keys of GROUP BY: expressions, names and numbers of items, or (ALL) the items without aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from kigen.language.app_text import Source
from kigen.plan.binder.expressions.binding import AGGREGATES, place_of, resolve
from kigen.plan.binder.expressions.terms import Term
from kigen.plan.binder.grouping.grouping_sets import MOST_SETS, has_sets, number_of_sets
from kigen.plan.binder.outputs import Item
from kigen.plan.binder.over.calls import reads_calls
from kigen.plan.binder.over.qualify import called_early
from kigen.plan.binder.scope import Scope


def group_nodes(source: Source, select: exp.Select, items: Sequence[Item]) -> list[exp.Expr]:
    """Returns the elements of GROUP BY as they were written."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        plain = [item.node for item in items if item.node is not None and not reads_calls(item.node)]
        return [node for node in plain if not node.find(*AGGREGATES)]
    nodes: list[exp.Expr] = group.expressions
    if has_sets(nodes) and number_of_sets(nodes) > MOST_SETS:
        message = f"GROUP BY stands for {number_of_sets(nodes)} grouping sets; there may be {MOST_SETS}"
        raise source.error(place_of(source, group), message, "list the sets that you need: GROUPING SETS")
    return nodes


def group_key(scope: Scope, items: Sequence[Item], aliases: Mapping[str, Term], node: exp.Expr) -> Term:
    """Returns one key over the columns of the scope."""
    if isinstance(node, exp.Literal) and not node.is_string:
        node = _numbered(scope.source, items, node)
    if isinstance(node, exp.Column) and not node.args.get("table") and scope.find(node) is None:
        named = [i.node for i in items if i.name and i.name.lower() == node.name.lower() and i.node is not None]
        if named and named[0].find(*AGGREGATES):
            message = f"{node.name} is an aggregate and cannot be grouped by"
            hint = "compute it in a subquery in FROM and group by it outside"
            raise scope.source.error(place_of(scope.source, node), message, hint)
    return resolve(scope, node, aliases, clause="GROUP BY")


def _numbered(source: Source, items: Sequence[Item], node: exp.Literal) -> exp.Expr:
    """Returns the item that a number stands for."""
    span, at = place_of(source, node), int(node.name) if node.name.isdigit() else 0
    if not 1 <= at <= len(items):
        hint = f"write a number from 1 to {len(items)}, or a column"
        raise source.error(span, f"GROUP BY {node.name} is not an item of the SELECT list", hint)
    found = items[at - 1].node
    if found is None:
        hint = "write the column's name"
        raise source.error(span, "GROUP BY with a number cannot refer to a column of *", hint)
    if reads_calls(found):
        raise called_early(source, span, f"item {at}", "GROUP BY")
    return found
