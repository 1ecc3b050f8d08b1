"""The rules of CQL. Tests hold them against the parser in both directions.

Every sentence of these rules is parsed, and every app in the project's pages and tests follows them. The parser takes
some of SQL that the binder then refuses by name; such things are not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kigen.language.grammar.notation import Choice, Item, Literal, Optional, Repeat, Sequence, read_rules

RULES = """
app: (statement ";") ...
statement: include | create_stream | create_table | create_function | create_view | create_query
include: INCLUDE file
create_stream: CREATE STREAM name columns [stream_clause ...]
columns: "(" (name type) ,... ")"
type: (plain_type | DECIMAL "(" count "," count ")" | STRUCT "(" (name type) ,... ")") [("[" "]") ...]
plain_type: BOOLEAN | BIGINT | INT | DOUBLE | STRING | TIMESTAMP | DATE | TIME | UUID | BLOB
stream_clause: TIMESTAMP BY name | FROM connector | LATENESS duration | IDLE duration | AHEAD duration
  | ON ERROR (FAIL | SKIP | INTO connector) | LATE INTO connector
  | SHED ABOVE number PER SECOND [BY expression] [INTO connector] | BUFFER count
connector: name ["(" [(name "=" value) ,...] ")"]
value: string | ["-"] number | TRUE | FALSE
duration: number unit
unit: MICROSECOND | MICROSECONDS | MILLISECOND | MILLISECONDS | SECOND | SECONDS | MINUTE | MINUTES | HOUR | HOURS
create_table: CREATE TABLE name columns [table_clause ...]
table_clause: FROM connector | KEY "(" name ,... ")" | REFRESH EVERY duration
create_function: CREATE FUNCTION name columns RETURNS type LANGUAGE PYTHON AS string
create_view: CREATE VIEW name AS (query | stream_query)
create_query: CREATE QUERY name [query_clause ...] AS (query | stream_query) [INTO connector]
query_clause: DEADLINE duration [FIRM] | COST count (MICROSECOND | MICROSECONDS)
  | ON ERROR (FAIL | SKIP | INTO connector)
stream_query: (ISTREAM | DSTREAM | RSTREAM ["[" duration "]"]) "(" query ")"
query: [WITH (name ["(" name ,... ")"] AS "(" query ")") ,...]
  (select [order] | select_term set_operation ... [order] | "(" query ")")
set_operation: (UNION [ALL] | EXCEPT [ALL] | INTERSECT [ALL]) select_term
select_term: select | "(" query ")"
select: SELECT [DISTINCT] item ,... FROM input [joined ...] [WHERE expression] [GROUP BY expression ,...]
  [HAVING expression] [QUALIFY expression]
item: "*" | name "." "*" | expression [AS name]
order: [ORDER BY order_key ,...] LIMIT count ([OFFSET count] | BY "(" name ,... ")")
order_key: expression [ASC | DESC] [NULLS (FIRST | LAST)]
input: name [window] [[AS] name] | "(" query ")" [[AS] name]
joined: "," (input | unnest) | CROSS JOIN (input | unnest) | JOIN unnest ON expression
  | join_kind JOIN input join_condition | JOIN input join_condition
unnest: UNNEST "(" operand ")" [[AS] name ["(" name ")"]]
join_kind: INNER | LEFT [OUTER] | RIGHT [OUTER] | FULL [OUTER] | SEMI | ANTI | ASOF [LEFT]
join_condition: ON expression | USING "(" name ,... ")"
window: "[" (RANGE duration [SLIDE duration] | ROWS count | SESSION duration | UNTIL name | NOW | UNBOUNDED
  | PARTITION BY name ,... (ROWS count | RANGE duration | SESSION duration)) "]"
expression: conjunction [(OR conjunction) ...]
conjunction: negation [(AND negation) ...]
negation: [NOT] predicate
predicate: operand [comparison] | EXISTS "(" query ")"
comparison: ("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") operand | IS [NOT] (NULL | TRUE | FALSE)
  | IS [NOT] DISTINCT FROM operand | [NOT] BETWEEN operand AND operand
  | [NOT] IN "(" (expression ,... | query) ")" | [NOT] (LIKE | ILIKE) operand
operand: term [(("+" | "-" | "||") term) ...]
term: factor [(("*" | "/" | "//" | "%") factor) ...]
factor: ["-"] primary [("[" expression "]") ...] ["::" type]
primary: number | string | TRUE | FALSE | NULL | (TIMESTAMP | DATE | TIME) string | INTERVAL number unit | parameter
  | column | call | case | CAST "(" expression AS type ")" | "(" expression ")" | "(" query ")"
  | "[" expression ,... "]"
column: name [("." name) ...]
call: name "(" [arguments] ")" [FILTER "(" WHERE expression ")"] [OVER "(" over ")"]
arguments: "*" | [DISTINCT] expression ,... [ORDER BY order_key ,...]
over: [PARTITION BY expression ,...] [ORDER BY order_key ,...]
case: CASE [expression] (WHEN expression THEN expression) ... [ELSE expression] END
"""


@cache
def rules() -> dict[str, Item]:
    return read_rules(RULES)


def keywords() -> frozenset[str]:
    """Returns every word in capitals."""
    return frozenset(word for item in rules().values() for word in _words(item))


def _words(item: Item) -> Iterator[str]:
    if isinstance(item, Literal) and item.text.isalpha():
        yield item.text
    elif isinstance(item, Sequence | Choice):
        for inner in item.items:
            yield from _words(inner)
    elif isinstance(item, Optional | Repeat):
        yield from _words(item.item)
