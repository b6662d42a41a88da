"""Which functions and names SQL text uses, and whether it may do so where a table's metadata says it instead of a user.

Who can write a table's log says what is evaluated when somebody else writes rows. Such text computes a value of the row, or of
the time, and nothing else: it reads no other table and no setting, and runs no code. Source: delta-spark has such a list for
generated columns.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from deltamerge.spark.sql.allowed.keywords import ALONE, BEHIND_COLUMNS
from deltamerge.spark.sql.allowed.operands import Columns, strange_name
from deltamerge.spark.sql.clock import CLOCKS
from deltamerge.spark.sql.lexer import Kind, Token, is_name
from deltamerge.spark.sql.text import tokens_of

# Functions of Spark 4.0 to 4.3 whose value follows from their arguments alone. Neither aggregates nor those that read schemas
# from files or addresses (from_avro, from_protobuf, from_xml; xpath, by the DTD that a text names) are among them.
_NAMES = """
abs acos acosh add_months aes_decrypt aggregate and array array_append array_compact array_contains array_distinct
array_except array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh
base64 between bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count
boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce collate collation
concat concat_ws contains conv convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format
date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
decimal decode degrees div double e element_at elt encode endswith equal_null exists exp expm1 extract factorial filter
find_in_set flatten float floor forall format_number format_string from_base32 from_csv from_json from_unixtime
from_utc_timestamp get get_json_object getbit greatest hash hex hmac hour hypot if ifnull ilike in initcap instr int
is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull jaro_winkler_similarity json_array_length
json_object_keys json_tuple last_day lcase least left len length levenshtein like ln locate log log10 log1p log2 lower
lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter
map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between
named_struct nanvl negative next_day not nullif nullifzero nvl nvl2 octet_length or overlay parse_json parse_url pi pmod
position positive pow power printf quarter quote radians raise_error reduce regexp regexp_count regexp_extract
regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rint rlike round
rpad rtrim schema_of_csv schema_of_json schema_of_variant sec second sentences sequence sha sha1 sha2 shiftleft
shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex space split split_part sqrt
st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map string struct substr substring
substring_index tan tanh time time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
time_to_millis time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds
timediff timestampadd timestampdiff tinyint to_base32 to_binary to_char to_csv to_date to_json to_number to_time to_timestamp
to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object transform transform_keys
transform_values translate trim trunc try_add try_aes_decrypt try_divide try_element_at try_make_interval
try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url
try_subtract try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
try_variant_array_append try_variant_get try_variant_insert try_variant_set typeof ucase unbase64 unhex unix_date
unix_micros unix_millis unix_nanos unix_seconds unix_timestamp upper url_decode url_encode validate_utf8
variant_array_append variant_delete variant_get variant_insert variant_set variant_strip_nulls vector_avg
vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize vector_sum weekday
weekofyear when width_bucket xxhash64 year zeroifnull zip_with
"""
# Keywords and types that may stand before a parenthesis.
_BEFORE_PARENTHESES = """
all and any array as between both by case cast char character collate dec decimal distinct div else end escape exists extract for
from ilike in interval is leading like map not null numeric on or overlay placing position regexp rlike some string struct substr
substring then time timestamp timestamp_ltz timestamp_ntz to trailing trim try_cast varchar when with
"""
_CLOCKS = CLOCKS | {"localtime", "current_timezone"}
# What a default may ask the session for, besides.
_OF_SESSION = {"current_catalog", "current_database", "current_schema", "current_user", "session_user", "user", "version"}
_SYNTAX = frozenset(_BEFORE_PARENTHESES.split())
_OWN_SCHEMAS = ("BUILTIN", "SYSTEM.BUILTIN")
# What a query begins with. A relation or a name follows the first three, an expression the others.
_OF_RELATIONS = frozenset({"WITH", "FROM", "TABLE"})
_OF_EXPRESSIONS = frozenset({"SELECT", "VALUES"})
# With it begins what Spark replaces by a setting, a variable of the environment or a property of Java, also within texts, and
# what it leaves out: the tokens of the text are not those that Spark reads.
_VARIABLE = "${"

# Of these, and of the clocks, those that came after Spark 4.0, and after Spark 4.2: before it a user may have functions of these
# names. Source: SHOW FUNCTIONS of 4.0.5, 4.2.0 and 4.3.0.
_AFTER_4_0 = """
current_time is_valid_variant make_time quote st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid time time_bucket
time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
to_time try_to_date try_to_time vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
vector_normalize vector_sum
"""
_AFTER_4_2 = """
from_base32 hmac jaro_winkler_similarity localtime timestamp_nanos to_base32 try_variant_array_append try_variant_insert
try_variant_set unix_nanos variant_array_append variant_delete variant_insert variant_set variant_strip_nulls
"""
OF_ROWS = frozenset(_NAMES.split())
OF_CHECKS = OF_ROWS | _CLOCKS
OF_DEFAULTS = OF_CHECKS | _OF_SESSION


def lacking(version: str) -> frozenset[str]:
    """The names of the lists that are no functions of Spark's in a version, such as `4.0.5`."""
    release = tuple(int(part) for part in version.split(".")[:2])
    after = (_AFTER_4_0 if release < (4, 2) else "") + (_AFTER_4_2 if release < (4, 3) else "")
    return frozenset(after.split())


def forbidden(text: str, allowed: Collection[str], columns: Columns | None = None) -> str | None:
    """What SQL text of a table's metadata may not use, as it is written there; None where it calls `allowed` functions only.

    If the `columns` of its row are given, it names nothing else: no variable of the session, and no column of other rows.
    """
    begin = text.find(_VARIABLE)
    if begin >= 0:
        return text[begin : text.find("}", begin) + 1 or len(text)]
    tokens = tokens_of(text)
    if tokens is None:
        return text
    for n, (token, following) in enumerate(pairwise(tokens)):
        if (n == 0 or tokens[n - 1].text == "(") and _begins_query(token, following):
            return "a subquery"
        if token.upper == "USING" and following.text not in BEHIND_COLUMNS:  # MAP .. USING and REDUCE .. USING run a command
            return "a subquery"
        if following.text == "(" and _may_be_name(token):
            name = _called(tokens, n)
            if not _is_allowed(name, token.kind is not Kind.WORD, allowed):
                return name
    return None if columns is None else strange_name(tokens, columns, ALONE.intersection(allowed))


def _begins_query(token: Token, following: Token) -> bool:
    """Whether a query may begin with these two; a word before a sign can be a column."""
    if token.upper in _OF_RELATIONS:
        return following.kind is not Kind.SIGN or following.text == "("
    return token.upper in _OF_EXPRESSIONS and following.text not in BEHIND_COLUMNS


def _called(tokens: list[Token], n: int) -> str:
    """The function called at a place, with the names before it, but for those of Spark's own schema."""
    first = n
    while first >= 2 and tokens[first - 1].text == "." and _may_be_name(tokens[first - 2]):
        first -= 2
    parts = [token.name for token in tokens[first : n + 1 : 2]]
    return parts[-1] if ".".join(parts[:-1]).upper() in _OWN_SCHEMAS else ".".join(parts)


def _may_be_name(token: Token) -> bool:
    """Whether a token is a name, or is one where the session takes double quotes for those of names."""
    return is_name(token) or token.text.startswith('"')


def _is_allowed(name: str, is_quoted: bool, allowed: Collection[str]) -> bool:
    return name.lower() in allowed or (not is_quoted and name.lower() in _SYNTAX)
