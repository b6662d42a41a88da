"""Random SQL texts that are hard to split: comments, hints, quotes and blanks of all kinds, keywords as names, broken pieces."""

from __future__ import annotations

import random
import re
from typing import TypeVar

T = TypeVar("T")


def _items(text: str) -> tuple[str, ...]:
    """What stands between blanks, two or more of them, or on lines."""
    return tuple(re.split(r"\s{2,}", text.strip()))


_RARE = _items(r"""'  "  `  ``  r'  R"  /*  \  \\  @  @v  @V1  $  $$  $x$  {  }  #  ://  a://  s3://b  ''  "" """)
_RARE += ("\u00e9", "\u00df", "\u017f", "\u0131", "\u0345", "\x00", "\x1c", "\x85", "\ufeff", "\u200b", "\U0001f600")
_COMMON = _items(
    """a  t.id  when  WHEN MATCHED  _  x  X  r  int  array  MAP  struct<  array<  1  12  0  1L  1.  1.5  .5  e  E3  1e3  1e+  +3
    D  BD  bd  f  F  L  S  Y  'a'  'a b'  `a`  --  -- x  -- 'y'  */  /*+  /* x */  /  *  +  -  !  !>  !<  !=  =  ==  <=>  <  <>
    <=  >  >=  >>  >>>  <<  =>  ->  |  ||  |>  :  ::  :x  ?  ;  ,  .  (  )  [  ]  ~  &  ^  %"""
)
_COMMON += ("--\\\n", "\\\n", " ", "  ", "\n", "\r\n", "\r", "\t", "\x0b", "\u00a0", "\u3000", "\u2028")

_GAPS = (" ",) * 14 + ("\n", "\r\n", "\t", "  ", "\u00a0", "\u3000", "\x0b", "--\n", " -- it's\n", " -- x\r", " -- /* \n")
_GAPS += (" -- a\\\nWHEN MATCHED THEN DELETE\n", " /* WHEN MATCHED THEN DELETE */ ", " /*+ BROADCAST(s) */ ")
_GAPS += _items("/**/  /* c */  /* a /* b */ c */  /* ' */  /* -- */  /* /*+ x */")
_PLAIN_GAPS = tuple(gap for gap in _GAPS if not gap.strip().startswith("/*+"))  # no MERGE has a hint but in its queries

_COLUMNS = _items("t.id  s.id  t.v  s.v  id  v  t.`a b`  s.x  t.id  s.id")
_NAMES = _items(
    """when  matched  end  case  then  values  delete  insert  update  set  source  target  by  not  default  map  left  on  using
    merge  with  and  in  between  date  exists  from  select  table  x  r  all  except  minus  array  isnull  notnull  1a  _x
    `when`  `a``b`  `;`  `'`  `--`"""
)
_VALUES = _items(
    r"""1  'x'  'it''s'  'a\'b'  '\\'  "q"  "it's"  r'\'  R"'"  'WHEN MATCHED THEN DELETE'  '-- x'  '/*'  1L  1.5  .5  1.  1e3
    2BD  -1  +1  - - 1  true  null  x'1F'  date'2020-01-01'  ?  date('2020-01-01')  interval 1 day  'a' 'b'  current_date  default
    b::map<string,int>  a[0]  f(a, b)  s.m::array<map<int,string>>  cast(a as map<int, array<int>>)  map(1, 2)  array(1)  (1, 2)
    (select max(x) from u)  struct(a as x, b)  transform(a, y -> y + 1)  named_struct('a', 1)  case when a then b end  a:b  1 x
    a as b  case when matched then 1 when not matched then 2 end  count(*)  exists(select 1)  a in (1, 2)  a between 1 and 2
    not a  ! a  a is not null  a like 'x!%' escape '!'  t.end  case.x  $1  {x}  `naïve`  naïve  array(1)[0] >> 1  a >> 1  a !> b
    a !< b  :p  a => 1  date_trunc(t.u, t.v)  like(t.v, 'a')  t.v isnull  `a``b`"""
)
_VALUES += ("a--b\n", "'a\nb'")
_OPERATORS = _items(
    """=  =  ==  <=>  <  <=  >  <>  !=  !>  AND  AND  and  OR  +  -  *  /  ||  %  &  LIKE  NOT LIKE  RLIKE  IN  IS
    IS DISTINCT FROM  IS NOT DISTINCT FROM  DIV  |  <<  >>  ->  XOR"""
)
_TESTS = _items(
    """IS NULL  IS NOT NULL  IS TRUE  IN (1, 2)  NOT IN (1)  IN ('x', 'y')  BETWEEN 1 AND 2  NOT BETWEEN 1 AND 2  LIKE 'a%'
    LIKE ANY ('a', 'b')  ISNULL  NOTNULL  x  AS x  [0]  .c  ::int  COLLATE UTF8_LCASE"""
)
# What Spark takes anywhere; the blanks and comments between make a statement of them odd.
_PLAIN_VALUES = _items(
    r"""1  'x'  'a\'b'  '\\'  "it's"  r'\'  R"'"  'WHEN MATCHED THEN DELETE'  '-- x'  '/*'  1L  1.5  .5  1.  1e3  2BD  -1  true
    null  x'1F'  date'2020-01-01'  interval 1 day  current_date  b::map<string,int>  a[0]  f(a, b)  s.m::array<map<int,string>>
    cast(a as map<int, array<int>>)  map(1, 2)  struct(a as x, b)  transform(a, y -> y + 1)  case when a then b end  count(*)
    case when matched then 1 when not matched then 2 end  a in (1, 2)  a between 1 and 2  a is not null  a like 'x!%' escape '!'
    `a``b`  `;`  `--`  `'`  t.when  s.end  '\u0041'  '\101'  'it''s'  'a' 'b'  "q"  a is distinct from b  not a  a ilike 'x'"""
)
_PLAIN_OPERATORS = _items("=  ==  <=>  <  >=  <>  !=  AND  and  OR  +  -  *  /  ||  %  LIKE  RLIKE  DIV")
_ESCAPES = _items(
    r"""\  \\  \'  \"  ''  ""  "  \n  \t  \0  \Z  \%  \_  \q  \u0041  \u00g0  \101  \08  \400  \U0001F600  \ud83d  \ude00  a  %"""
)


class OddTexts:
    """Texts of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._plain = False

    def pieces(self) -> str:
        """Pieces of tokens in a row."""
        kinds = (*_COMMON, *_COMMON, *_COMMON, *_RARE)
        return "".join(self._one(kinds) for _ in range(self._random.randint(1, 14)))

    def string(self) -> str:
        """A string with all kinds of escapes, most of which close."""
        return "'" + "".join(self._one(_ESCAPES) for _ in range(self._random.randint(0, 6))) + "'"

    def expression(self, depth: int = 3) -> str:
        """Something that may be an expression."""
        if self._plain:
            return self._plain_expression(depth)
        chance = self._random.random()
        if depth == 0 or chance < 0.3:
            return self._name() if self._chance(0.5) else self._one(_VALUES)
        if chance < 0.72:
            return self._spaced(self.expression(depth - 1), self._one(_OPERATORS), self.expression(depth - 1))
        if chance < 0.82:
            return self._spaced(self.expression(depth - 1), self._one(_TESTS))
        if chance < 0.9:
            return self._spaced("(", self.expression(depth - 1), ")")
        if chance < 0.95:
            return self._spaced(self._one(("NOT", "!", "-", "+", "~")), self.expression(depth - 1))
        when = self._spaced("WHEN", self.expression(depth - 1), "THEN", self.expression(depth - 1), "END")
        return self._spaced("CASE", *([self.expression(depth - 1)] if self._chance(0.3) else []), when)

    def _plain_expression(self, depth: int) -> str:
        if depth <= 1 or self._chance(0.4):
            return self._one(_COLUMNS) if self._chance(0.4) else self._one(_PLAIN_VALUES)
        left, right = self._plain_expression(depth - 1), self._plain_expression(depth - 1)
        return self._spaced("(", left, ")", self._one(_PLAIN_OPERATORS), "(", right, ")")

    def statement(self) -> str:
        """Something that may be a MERGE statement: most of its parts are fine, or any of them may be none."""
        self._plain = self._chance(0.5)
        begin = self._one(("",) * 9 + ("-- c\\\nx\n", "/* a */ ", ";"))
        ctes = self._one(("",) * 6 + ("WITH a AS (SELECT 1) ", "WITH merge AS (SELECT ')'), b(x) AS (SELECT 2) "))
        evolution = ["WITH", "SCHEMA", "EVOLUTION"] if self._chance(0.15) else []
        names = ("`--`",) if self._plain else _NAMES
        target = self._one(("t", "db.t", "delta.`/p/it's`", "`t`", self._one(names)))
        queries = ("(SELECT * FROM u)", "(SELECT ')' FROM u -- )\n)", "(VALUES (1))", "(SELECT 1 /* ) */)")
        source = self._one(("s", "db.s", "delta.`/p;`", self._one(names), *queries))
        words = [begin + ctes + "MERGE", *evolution, "INTO", target, *self._alias(), "USING", source, *self._alias(), "ON"]
        words.append(self._condition())
        for side, most in (("MATCHED", 2), ("NOT MATCHED", 1), ("NOT MATCHED BY SOURCE", 2)):
            words += [self._clause(side) for _ in range(self._one((0, 1, 1, most)))]
        ends = ("", "", "", ";", " ; ;", "; -- x", " -- x\\\ny", " /* x */")
        found = self._spaced(*words) + self._one(ends if self._plain else (*ends, " /* x", " )", " x", " WHEN"))
        return self._broken(found) if self._chance(0.05 if self._plain else 0.35) else found

    def _clause(self, side: str) -> str:
        words = ["WHEN", *side.split()]
        if side == "NOT MATCHED":
            words = ["WHEN", self._one(("NOT", "NOT", "NOT", "!")), "MATCHED", *(["BY", "TARGET"] if self._chance(0.4) else [])]
        words += ["AND", self._condition()] if self._chance(0.6) else []
        words.append("THEN")
        if side == "NOT MATCHED":
            return self._spaced(*words, "INSERT", *(["*"] if self._chance(0.4) else self._lists()))
        if self._chance(0.35):
            return self._spaced(*words, "DELETE")
        return self._spaced(*words, "UPDATE", "SET", *(["*"] if side == "MATCHED" and self._chance(0.5) else self._set()))

    def _lists(self) -> list[str]:
        number = self._random.randint(1, 2)
        columns = f"{self._gap()},".join(self._name() for _ in range(number))
        values = f",{self._gap()}".join(self._value() for _ in range(number))
        return ["(", columns, ")", "VALUES", "(", values, ")"]

    def _set(self) -> list[str]:
        pairs = [
            self._spaced(self._name(), self._one(("=", "=", "==")), self._value()) for _ in range(self._random.randint(1, 3))
        ]
        return [f",{self._gap()}".join(pairs)]

    def _value(self) -> str:
        return "DEFAULT" if self._chance(0.3) else self.expression(self._one((1, 2)))

    def _condition(self) -> str:
        return self._spaced("t.id", "=", "s.id") if self._chance(0.55) else self.expression(self._one((2, 3)))

    def _alias(self) -> list[str]:
        names = ("t", "s", "`x y`")
        found = [*(["AS"] if self._chance(0.3) else []), self._one(names if self._plain else (*names, self._one(_NAMES)))]
        return found if self._chance(0.6) else []

    def _name(self) -> str:
        return self._one(_COLUMNS) if self._plain or self._chance(0.8) else self._one(("t.", "s.", "", "")) + self._one(_NAMES)

    def _broken(self, text: str) -> str:
        """The text with some of its words and signs left out, added or exchanged."""
        parts = re.findall(r"\s+|\w+|.", text, re.DOTALL)
        for _ in range(self._random.randint(1, 2)):
            place, chance = self._random.randrange(len(parts)), self._random.random()
            if chance < 0.35:
                parts[place] = ""
            elif chance < 0.6:
                signs = (
                    "'",
                    "`",
                    '"',
                    "(",
                    ")",
                    ",",
                    ";",
                    "/*",
                    "*/",
                    "--",
                    "\\\n",
                    "WHEN",
                    "THEN",
                    "END",
                    "CASE",
                    "=",
                    "<",
                    ">",
                    "r",
                )
                parts.insert(place, self._one(signs))
            elif chance < 0.8:
                parts[place] = self._one((*_NAMES, *_VALUES))
            else:
                other = self._random.randrange(len(parts))
                parts[place], parts[other] = parts[other], parts[place]
        return "".join(parts)

    def _spaced(self, *words: str) -> str:
        return "".join(word + self._gap() for word in words[:-1]) + words[-1]

    def _gap(self) -> str:
        return self._one(_PLAIN_GAPS if self._plain else _GAPS)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _one(self, options: tuple[T, ...]) -> T:
        return self._random.choice(options)
