"""The little language of conditions and relations between columns: sex == 'M', a + b <= total, grade in ['A', 'B'].

    condition   comparisons with `and`, `or`, `not` and parentheses; `column in [value, …]`
    comparison  two sums with one of < <= > >= == != between them
    sum         columns, numbers and 'quoted' values with + - * / and parentheses

A column goes by its name; one that is not a plain word stands in `backquotes`. Nothing is ever handed to Python's eval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from vsae.table.errors import TableError

_TOKENS = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\""
    r"|`(?P<quoted>[^`]+)`|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|==|!=|[-+*/()<>=\[\],]))"
)
_DEEPEST = 50  # parentheses in each other


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Quoted:
    text: str


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Operation:
    sign: str  # + - * /
    left: Sum
    right: Sum


Sum = Number | Quoted | Column | Operation


@dataclass(frozen=True)
class Comparison:
    sign: str  # < <= == !=; > and >= are turned round
    left: Sum
    right: Sum


@dataclass(frozen=True)
class Membership:
    column: Sum
    values: tuple[Sum, ...]


@dataclass(frozen=True)
class Not:
    part: Condition


@dataclass(frozen=True)
class Both:
    """Parts joined by `and`, or else by `or`."""

    all: bool
    parts: tuple[Condition, ...]


Condition = Comparison | Membership | Not | Both


class _Token(NamedTuple):
    kind: str
    text: str


def parse_condition(text: str) -> Condition:
    """
    >>> parse_condition("sex == 'M' and age < 12")
    Both(all=True, parts=(Comparison(sign='==', left=Column(name='sex'), right=Quoted(text='M')),
    Comparison(sign='<', left=Column(name='age'), right=Number(value=12.0))))
    """
    parser = _Parser(text)
    found = parser.condition()
    parser.end()
    return found


def parse_relation(text: str) -> Comparison:
    """One comparison by < <= > >= or == of sums of columns.

    >>> parse_relation("total >= a + 2").left
    Operation(sign='+', left=Column(name='a'), right=Number(value=2.0))
    """
    parser = _Parser(text)
    found = parser.comparison()
    parser.end()
    if not isinstance(found, Comparison) or found.sign == "!=" or not any(True for _ in columns_of(found)):
        raise TableError(f"{text!r} is not a relation; write one such as 'a < b' or 'total == a + b'")
    return found


def columns_of(node: Condition | Sum) -> Iterator[str]:
    """The names of all columns, as often as they occur."""
    if isinstance(node, Column):
        yield node.name
    for part in _parts(node):
        yield from columns_of(part)


def _parts(node: Condition | Sum) -> tuple[Condition | Sum, ...]:
    if isinstance(node, Operation | Comparison):
        return node.left, node.right
    if isinstance(node, Membership):
        return node.column, *node.values
    if isinstance(node, Not):
        return (node.part,)
    return node.parts if isinstance(node, Both) else ()


class _Parser:
    """By recursive descent, one method a rule."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.tokens = list(self._tokens())

    def _tokens(self) -> Iterator[_Token]:
        place = 0
        while self.text[place:].strip():
            found = _TOKENS.match(self.text, place)
            if found is None or found.lastgroup is None:
                raise self._error(f"{self.text[place:].strip()[0]!r} means nothing here")
            yield _Token(found.lastgroup, found[found.lastgroup])
            place = found.end()
        yield _Token("end", "")

    def _error(self, what: str) -> TableError:
        return TableError(f'{self.text!r}: {what}; write for example "sex == \'M\'" or "a + b <= total"')

    def _next(self, *texts: str) -> str | None:
        """The next token, if it is one of these signs or words."""
        token = self.tokens[self.at]
        if token.kind in ("sign", "word") and token.text in texts:
            self.at += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._next(text) is None:
            raise self._error(f"{text!r} is missing before {self.tokens[self.at].text or 'the end'!r}")

    def end(self) -> None:
        if self.tokens[self.at].kind != "end":
            raise self._error(f"{self.tokens[self.at].text!r} is too much")

    def condition(self) -> Condition:
        return self._joined("or", lambda: self._joined("and", self._negated))

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._next(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Both(word == "and", tuple(parts))

    def _negated(self) -> Condition:
        if self._next("not"):
            return Not(self._negated())
        start = self.at
        if self._next("("):  # of a condition, or of a sum: the one that can be read on
            try:
                self._deeper()
                inner = self.condition()
                self._expect(")")
                self.depth -= 1
                if self.tokens[self.at].kind == "end" or self.tokens[self.at].text in ("and", "or", ")"):
                    return inner
            except TableError:
                if self.depth > _DEEPEST:
                    raise
                self.depth -= 1
            self.at = start
        return self.comparison()

    def comparison(self) -> Condition:
        left = self._sum()
        if self._next("in"):
            close = "]" if self._next("[") else ")"
            if close == ")":
                self._expect("(")
            values = [self._sum()]
            while self._next(","):
                values.append(self._sum())
            self._expect(close)
            return Membership(left, tuple(values))
        sign = self._next("<", "<=", ">", ">=", "==", "!=", "=")
        if sign is None:
            raise self._error("a comparison is missing")
        right = self._sum()
        if sign in (">", ">="):
            return Comparison(sign.replace(">", "<"), right, left)
        return Comparison("==" if sign == "=" else sign, left, right)

    def _sum(self) -> Sum:
        left = self._product()
        while sign := self._next("+", "-"):
            left = Operation(sign, left, self._product())
        return left

    def _product(self) -> Sum:
        left = self._atom()
        while sign := self._next("*", "/"):
            left = Operation(sign, left, self._atom())
        return left

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error("too many parentheses")

    def _atom(self) -> Sum:
        if self._next("-"):
            self._deeper()
            inner = self._atom()
            self.depth -= 1
            return Number(-inner.value) if isinstance(inner, Number) else Operation("-", Number(0.0), inner)
        if self._next("("):
            self._deeper()
            inner = self._sum()
            self._expect(")")
            self.depth -= 1
            return inner
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "number":
            return Number(float(token.text))
        if token.kind in ("single", "double"):
            return Quoted(token.text)
        if token.kind == "quoted" or (token.kind == "word" and token.text not in ("and", "or", "not", "in")):
            return Column(token.text)
        raise self._error(f"{token.text or 'the end'!r} stands where a column or a value is due")
