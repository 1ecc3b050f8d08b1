"""The grammar of CQL as data: one text that the reference page, editors, the shell's completion and tests read."""

from kigen.language.grammar.notation import Choice, Item, Literal, Optional, Reference, Repeat, Sequence, read_rules
from kigen.language.grammar.recognizer import LEXICAL, Recognizer
from kigen.language.grammar.rules import RULES, keywords, rules

__all__ = [
    "LEXICAL",
    "RULES",
    "Choice",
    "Item",
    "Literal",
    "Optional",
    "Recognizer",
    "Reference",
    "Repeat",
    "Sequence",
    "keywords",
    "read_rules",
    "rules",
]
