"""The grammar page against the parser: sentences of the rules are parsed, apps that are parsed follow the rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

from kigen.language.dialect import UNITS_US
from kigen.language.grammar import (
    Choice,
    Item,
    Literal,
    Optional,
    Recognizer,
    Reference,
    Repeat,
    Sequence,
    keywords,
    read_rules,
    rules,
)
from kigen.language.parse import parse_app
from kigen.language.statements import QUERY_CLAUSES, STATEMENTS, STREAM_CLAUSES, TABLE_CLAUSES
from kigen.plan.binder import bind
from kigen.plan.types import Type

ROOT = Path(__file__).parents[2]
HINT = "add the syntax to src/kigen/language/grammar/rules.py, and run: python scripts/make_grammar_page.py"
TOKENS = {
    "name": ["a", "b", "speed", '"Odd name"'],
    "number": ["1", "2.0", "10"],
    "count": ["1", "12"],
    "string": ["'x'", "'it''s'"],
    "file": ["'more.cql'"],
    "parameter": ["$limit"],
}


def sentence(rng: Random, item: Item, depth: int) -> list[str]:
    """Returns the tokens of a random sentence; deep in it, the shortest way out."""
    tired = depth > 7
    match item:
        case Literal(text):
            return [text]
        case Reference(name) if name in TOKENS:
            return [rng.choice(TOKENS[name])]
        case Reference("primary") if tired:
            return ["a"]
        case Reference("query") if tired:
            return ["SELECT", "a", "FROM", "b", "[", "NOW", "]"]
        case Reference(name):
            return sentence(rng, rules()[name], depth + 1)
        case Sequence(items):
            return [token for inner in items for token in sentence(rng, inner, depth)]
        case Choice(items):
            return sentence(rng, rng.choice(items), depth)
        case Optional(inner):
            return sentence(rng, inner, depth) if rng.random() < (0.05 if tired else 0.3) else []
        case Repeat(inner, separator):
            found = sentence(rng, inner, depth)
            while rng.random() < (0.05 if tired else 0.25):
                found += [*([separator] if separator else []), *sentence(rng, inner, depth)]
            return found


def parsed(text: str, folder: Path) -> list[str]:
    app = parse_app(text, directory=str(folder), params={"limit": 3} if "$limit" in text else {})
    return [str(error) for error in app.errors]


def repeated(errors: list[str]) -> bool:
    """Whether the text only says a clause twice, which no rule of a grammar without counters can forbid."""
    return bool(errors) and all("is given twice" in error for error in errors)


@pytest.mark.parametrize("start", [name for name in rules() if name.startswith(("create", "include"))])
def test_every_sentence_of_the_grammar_is_parsed(start: str, tmp_path: Path) -> None:
    (tmp_path / "more.cql").write_text("")
    rng = Random(start)
    for _ in range(40):
        text = " ".join(sentence(rng, Reference(start), 0)) + " ;"
        errors = parsed(text, tmp_path)
        assert not errors or repeated(errors), f"{text}\n{errors[0]}"
        assert Recognizer(text).accepts(), text


def apps() -> list[tuple[str, str]]:
    """Returns the apps of the pages, examples and golden files, with where they are."""
    found = [(p.name, p.read_text(encoding="utf-8")) for p in sorted(ROOT.glob("examples/*/*.cql"))]
    found += [(p.name, p.read_text(encoding="utf-8")) for p in sorted((ROOT / "tests/plan/golden").glob("*.sql"))]
    for page in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]):
        found += [(page.name, text) for text in re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.S)]
    return [(name, text) for name, text in found if "CREATE" in text]


def test_every_app_of_the_project_follows_the_grammar() -> None:
    seen = apps()
    assert len(seen) > 40
    for name, text in seen:
        ended = text if text.rstrip().endswith(";") or text.rstrip().splitlines()[-1].startswith("--") else text + ";"
        recognizer = Recognizer(ended)
        assert recognizer.accepts(), f"{name}: stopped at: {recognizer.stopped_at}\n{text}\n{HINT}"


DECLARED = """CREATE STREAM s (a BIGINT, b STRING) TIMESTAMP BY a FROM csv (path = 'x', follow = TRUE, n = -1)
  LATENESS 2 SECONDS ON ERROR INTO csv (path = 'e') SHED ABOVE 5 PER SECOND INTO csv () BUFFER 7 IDLE 1 HOUR;
CREATE TABLE t (a BIGINT) FROM csv (path = 'x') KEY (a, b) REFRESH EVERY 60 SECONDS;
CREATE FUNCTION f (x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'm:f';
CREATE QUERY q DEADLINE 2 SECONDS FIRM COST 10 MICROSECONDS AS RSTREAM [1 SECONDS] (SELECT a FROM s [RANGE 2 SECONDS
  SLIDE 1 SECONDS] AS x, s [PARTITION BY a, b ROWS 3] AS y, s [UNTIL a] AS z) INTO csv (path = 'o');"""


def test_a_text_with_a_token_less_or_twice_is_an_error_to_both(tmp_path: Path) -> None:
    """Not for the inside of queries: there the parser takes more SQL, which the binder refuses."""
    for statement in DECLARED.split(";")[:-1]:
        tokens = re.findall(r"'[^']*'|[\w.:]+|\S", statement)
        for place in range(len(tokens)):
            for changed in (tokens[:place] + tokens[place + 1 :], tokens[: place + 1] + tokens[place:]):
                text = " ".join(changed) + " ;"
                errors = parsed(text, tmp_path)
                if repeated(errors) or ("SELECT" in changed and _inside(changed, tokens, place)):
                    continue
                assert Recognizer(text).accepts() == (not errors), f"{text}\n{errors}"


def _inside(changed: list[str], tokens: list[str], place: int) -> bool:
    """Whether the change is in the query itself and not in one of its windows."""
    return tokens.index("SELECT") - 1 <= place and tokens[:place].count("[") == tokens[:place].count("]")


def test_the_lists_of_the_parser_are_in_the_grammar() -> None:
    for rule, clauses in (("stream_clause", STREAM_CLAUSES), ("table_clause", TABLE_CLAUSES)):
        found = rules()[rule]
        assert isinstance(found, Choice)
        assert {_beginning(item) for item in found.items} == {clause.split()[0] for clause in clauses}
    words = keywords()
    assert {word for clause in QUERY_CLAUSES for word in clause.split()} <= words
    assert set(STATEMENTS) <= words
    assert {unit + ending for unit in UNITS_US for ending in ("", "S")} <= words
    plain = {value.value for value in vars(Type).values() if isinstance(value, Type)}
    assert {Literal(name) for name in plain} <= set(_items(rules()["plain_type"]))
    for item in _items(rules()["plain_type"]):
        assert isinstance(item, Literal)
        bind(f"CREATE STREAM s (a {item.text}[]) FROM http (); CREATE QUERY q AS SELECT a FROM s [NOW];")


def _items(item: Item) -> tuple[Item, ...]:
    assert isinstance(item, Choice)
    return item.items


def _beginning(item: Item) -> str:
    first = item.items[0] if isinstance(item, Sequence) else item
    assert isinstance(first, Literal)
    return first.text


def test_broken_notation_is_named() -> None:
    for wrong, message in (("a: [b", "not closed"), ("a: b |", "empty"), ("a: b ) c", "unexpected"), ("a: !", "read")):
        with pytest.raises(ValueError, match=message):
            read_rules(wrong)


def test_what_may_come_next_is_known() -> None:
    assert Recognizer("CREATE QUERY q AS SELECT a FROM s [").next_words() == {
        "RANGE", "ROWS", "SESSION", "UNTIL", "NOW", "UNBOUNDED", "PARTITION",
    }  # fmt: skip
    assert {"DEADLINE", "COST", "AS"} <= Recognizer("CREATE QUERY q").next_words()
    assert Recognizer("CREATE STREAM").next_words() == {"name"}


def test_the_page_and_the_editors_are_up_to_date() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("make_grammar_page", ROOT / "scripts" / "make_grammar_page.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for path, text in script.files().items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/make_grammar_page.py"
    grammar = json.loads((ROOT / "editors/vscode/syntaxes/cql.tmLanguage.json").read_text(encoding="utf-8"))
    found = [pattern for pattern in grammar["patterns"] if pattern["name"] == "keyword.control.cql"]
    for word in sorted(keywords() - script.OTHERS):
        assert re.search(found[0]["match"], word), word
        assert re.search(found[0]["match"], word.lower()), word
    assert not re.search(found[0]["match"], "selected")
