"""Says which types of Arrow a column's type takes, and casts to it: for parquet files, Arrow messages and DataFrames.

Invariant: a cast changes no value; one that would is refused. A timestamp without a zone is UTC. A date may become a
TIMESTAMP, the midnight at its beginning. Cost: one cast per array.
"""

from __future__ import annotations

import pyarrow as pa

from kigen.connectors.casting import convert_texts, in_range
from kigen.connectors.values.entries import Misfit, value_of
from kigen.plan.types import LARGEST_PRECISION, Type


def may_become(found: pa.DataType, wanted: Type) -> bool:
    """Returns whether a column of this type of Arrow may hold values of the type."""
    kinds = pa.types
    if kinds.is_dictionary(found):
        found = found.value_type
    if kinds.is_null(found):
        return True
    if wanted.element is not None:
        return _is_list(found) and may_become(found.value_type, wanted.element)
    if wanted.fields:
        inner = {field.name: field.type for field in found} if kinds.is_struct(found) else {}
        return all(name in inner and may_become(inner[name], kind) for name, kind in wanted.fields)
    is_number = kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_decimal(found)
    is_text = kinds.is_string(found) or kinds.is_large_string(found) or kinds.is_string_view(found)
    becomes: dict[str, bool] = {
        "BOOLEAN": kinds.is_boolean(found),
        "BIGINT": is_number,
        "DOUBLE": is_number,
        "DECIMAL": kinds.is_integer(found) or kinds.is_decimal(found),
        "STRING": is_text,
        "TIMESTAMP": kinds.is_timestamp(found) or kinds.is_date(found),
        "DATE": kinds.is_date(found),
        "TIME": kinds.is_time(found),
        "UUID": is_text or found == pa.uuid(),
        "BLOB": kinds.is_binary(found) or kinds.is_large_binary(found) or kinds.is_fixed_size_binary(found),
    }
    return becomes[wanted.kind]


def _is_list(found: pa.DataType) -> bool:
    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))


def cast_lossless(values: pa.Array, type_: Type) -> pa.Array:
    """Casts to the declared type; raises ArrowInvalid if a value does not fit. A timestamp without a zone is UTC."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if type_ is Type.TIMESTAMP and pa.types.is_timestamp(values.type):
        return in_range(values.cast(pa.timestamp("us", values.type.tz)).view(pa.timestamp("us")))
    if type_.holds("UUID"):
        return _with_uuids(values, type_)
    if type_.is_decimal and pa.types.is_integer(values.type):  # Arrow asks for room for every integer
        widest = pa.decimal128(LARGEST_PRECISION - type_.scale, 0)
        return values.cast(pa.int64()).cast(pa.decimal128(19, 0)).cast(widest).cast(type_.arrow)
    return in_range(values.cast(type_.arrow))


def _with_uuids(values: pa.Array, type_: Type) -> pa.Array:
    if type_ is Type.UUID and values.type != pa.uuid():
        found, misfits = convert_texts(values.cast(pa.string()), type_)
        if len(misfits):
            raise pa.ArrowInvalid(f"not a UUID: {values[int(misfits[0])]}")
        return found
    try:
        return in_range(pa.array([value_of(entry, type_) for entry in values.to_pylist()], type_.arrow))
    except Misfit as error:
        raise pa.ArrowInvalid(str(error)) from error


def type_of_arrow(found: pa.DataType) -> Type | None:
    """Returns the type that holds every value of a type of Arrow; None if there is none."""
    kinds = pa.types
    if kinds.is_dictionary(found):
        found = found.value_type
    if kinds.is_null(found):
        return Type.STRING
    if kinds.is_integer(found) and not kinds.is_uint64(found):
        return Type.BIGINT
    if kinds.is_decimal(found):
        return Type.decimal(found.precision, found.scale) if _is_ours(found) else Type.DOUBLE
    if _is_list(found):
        element = type_of_arrow(found.value_type)
        return None if element is None else Type.list_of(element)
    if kinds.is_struct(found):
        fields = [(field.name, type_of_arrow(field.type)) for field in found]
        known = [(name, kind) for name, kind in fields if name and kind is not None]
        same = len({name.lower() for name, _ in known}) == len(fields)
        return Type.struct_of(tuple(known)) if known and same else None
    order = (
        Type.BOOLEAN, Type.DOUBLE, Type.STRING, Type.DATE, Type.TIMESTAMP, Type.TIME, Type.UUID, Type.BLOB,
    )  # fmt: skip
    return next((kind for kind in order if may_become(found, kind)), None)


def _is_ours(found: pa.DataType) -> bool:
    return bool(0 <= found.scale <= found.precision <= LARGEST_PRECISION)
