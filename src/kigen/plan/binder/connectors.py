"""Checks connectors as declared: known names, known options, values of the right kind.

Invariant: a connector that passes has every required option, and its implementation can read every value. The files
themselves are not looked at.
"""

from __future__ import annotations

from kigen.language.app_text import Source
from kigen.language.declarations import ConnectorDecl, OptionDecl
from kigen.language.errors import CqlError, CqlErrors, near, suggest
from kigen.plan.connectors.option_kinds import OptionKind
from kigen.plan.connectors.registry import REGISTRY, BrokenPlugin, connector_named, names_for
from kigen.plan.connectors.spec import ConnectorSpec, Place
from kigen.plan.logical import Connector

_Options = dict[str, tuple[str, OptionKind]]  # by lower-case name: how an option is spelt, and what it takes

_ANY = OptionKind("a value", lambda value: True, "'value'")


def bind_connector(
    source: Source,
    decl: ConnectorDecl,
    columns: tuple[str, ...] = (),
    place: Place = "source",
) -> Connector:
    """Checks a connector as the source of a stream or table, or as a sink. A stream gives its `columns`: a synthetic
    one may describe them."""
    try:
        spec = connector_named(decl.name.text)
    except BrokenPlugin as broken:
        raise source.error(decl.name.span, str(broken), "mend the package, or uninstall it") from broken
    if spec is None or not spec.fits(place):
        raise _unknown_connector(source, decl, spec, names_for(place))
    allowed = _options(spec, columns, place)
    errors: list[CqlError] = []
    options: dict[str, object] = {}
    for option in decl.options:
        if spec.takes_any_option and option.key.text.lower() not in allowed:
            allowed = {**allowed, option.key.text.lower(): (option.key.text, _ANY)}
        error = _check(source, spec.name, option, allowed, options)
        if error is not None:
            errors.append(error)
    required = spec.required
    if required is not None and required not in options and not errors:
        example = f"{spec.name} ({required} = {allowed[required][1].example})"
        errors.append(
            source.error(decl.name.span, f"connector {spec.name} needs option {required}", f"write {example}")
        )
    for group in () if errors else spec.needs:
        if not any(option in options for option in group):
            example = f"{group[0]} = {allowed[group[0]][1].example}"
            message = f"connector {spec.name} needs option {' or '.join(group)}"
            errors.append(source.error(decl.name.span, message, f"add {example}"))
    if errors:
        raise CqlErrors(errors)
    return Connector(spec.name, tuple(options.items()))


def _unknown_connector(
    source: Source, decl: ConnectorDecl, spec: ConnectorSpec | None, known: tuple[str, ...]
) -> CqlError:
    """Lists the connectors that fit, unless the name is a likely misspelling of one of them."""
    name = decl.name.text.lower()
    misspelt = spec is None and near(name, known) is not None
    hint = suggest(name, known, "connectors here") if misspelt else f"connectors here: {', '.join(known)}"
    broken = REGISTRY.broken()
    hint += f"; left out: {'; '.join(broken)}" if broken else ""
    return source.error(decl.name.span, f"unknown connector {decl.name.text}", hint)


def _options(spec: ConnectorSpec, columns: tuple[str, ...], place: Place) -> _Options:
    described = {} if spec.column_kind is None else {c.lower(): (c, spec.column_kind) for c in columns}
    own = spec.options_in(place)
    return described | {key: (key, kind) for key, kind in own.items()}


def _check(
    source: Source, name: str, option: OptionDecl, allowed: _Options, found: dict[str, object]
) -> CqlError | None:
    entry = allowed.get(option.key.text.lower())
    if entry is None:
        spelt = [s for s, _ in allowed.values()]
        best = near(option.key.text, spelt)
        listed = f"{name} takes: {', '.join(spelt)}" if spelt else f"{name} takes no options"
        return source.error(
            option.key.span,
            f"unknown option {option.key.text} of {name}",
            f"did you mean {best}? {listed}" if best else listed,
        )
    key, kind = entry
    if key in found:
        return source.error(option.key.span, f"option {key} is given twice", "keep one of them")
    if not kind.accepts(option.value):
        return source.error(option.span, f"option {key} needs {kind.wanted}", f"write {key} = {kind.example}")
    found[key] = option.value
    return None
