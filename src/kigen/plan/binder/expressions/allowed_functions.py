"""Lists the functions that an expression may call, by kind. Every other function is refused by name.

The list was made from `duckdb_functions()` of DuckDB 2.0 and reviewed by hand. A function is in it if it is scalar,
always returns the same value for the same arguments, and has no side effect. It reads no clock, file, setting, catalog
or variable, does not sleep, and cannot produce a huge value from a small one (kigen.plan.expressions.locked_duckdb
bounds those that could). The list also leaves out functions that take a lambda, random numbers, sequences, functions
about DuckDB itself, and functions that return types that columns cannot have, except lists of strings and JSON as
intermediate values. A test compares the list with the installed DuckDB: each function exists, is scalar and is
consistent.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# As DuckDB's parser calls them; comparisons, AND, OR, NOT, IN, BETWEEN, CASE, COALESCE and CAST are not functions.
OPERATORS = _names(
    "+ - * / // % ** ^ | & << >> ~ @ || ^@ ~~ !~~ ~~* !~~* ~~~ !__postfix -> ->> xor add subtract multiply divide mod"
)

NUMBERS = _names(
    """abs acos acosh asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees even exp factorial
    fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least
    least_common_multiple lgamma ln log log10 log2 nextafter pi pow power radians round round_even roundbankers
    sign signbit sin sinh sqrt tan tanh trunc"""
)

TEXTS = _names(
    """ascii base64 bin bit_length char_length character_length chr concat concat_ws contains decode encode ends_with
    format from_base64 from_hex hex ilike_escape instr lcase left left_grapheme length length_grapheme like_escape
    lower lpad ltrim md5 nfc_normalize not_ilike_escape not_like_escape octet_length ord overlay position prefix
    printf regexp_escape regexp_extract regexp_full_match regexp_matches regexp_replace repeat replace reverse right
    right_grapheme rpad rtrim sha1 sha256 split_part starts_with strip_accents strlen strpos substr substring
    substring_grapheme suffix to_base to_base64 to_hex translate trim ucase unbin unhex unicode upper url_decode
    url_encode"""
)

DISTANCES = _names(
    "damerau_levenshtein editdist3 hamming jaccard jaro_similarity jaro_winkler_similarity levenshtein mismatches"
)

# `age` with two arguments: with one it reads the clock.
TIMES = _names(
    """age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname
    dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era hour isodow isoyear
    julian last_day make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns microsecond millennium
    millisecond minute month monthname nanosecond quarter second strftime strptime time_bucket timezone to_centuries
    to_days to_decades to_hours to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters
    to_seconds to_timestamp to_weeks to_years try_strptime week weekday weekofyear year yearweek"""
)

CHOICES = _names("if nullif hash typeof")

LISTS = _names(
    """array_concat array_contains array_extract array_has array_length array_position array_slice element_at flatten
    len list_concat list_contains list_count list_distinct list_element list_extract list_has list_has_all
    list_has_any list_indexof list_max list_min list_position list_reverse_sort list_slice list_sort list_unique
    list_value regexp_extract_all regexp_split_to_array row split str_split str_split_regex string_split
    string_split_regex string_to_array struct_extract struct_pack"""
)

JSON = _names(
    """json_array json_array_length json_contains json_exists json_extract json_extract_path json_extract_path_text
    json_extract_string json_keys json_object json_structure json_type json_valid json_value to_json"""
)

# The binder decides where a query may use them.
AGGREGATES = _names(
    """arg_max arg_min argmax argmin array_agg avg bool_and bool_or count count_star first group_concat last list
    listagg max max_by median min min_by quantile_cont stddev stddev_pop stddev_samp string_agg sum var_pop
    var_samp variance"""
)

ALLOWED = OPERATORS | NUMBERS | TEXTS | DISTANCES | TIMES | CHOICES | LISTS | JSON | AGGREGATES
