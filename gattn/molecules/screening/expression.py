"""Expressions over the columns of a table, such as ``prediction > 7 and std < 0.5``.

The parser accepts a small language and builds functions. It never executes text as Python code.

======================================  ==========================================================
``or``, ``and``, ``not``                conditions
``<`` ``<=`` ``>`` ``>=`` ``==`` ``!=`` comparisons, also in chains: ``5 < prediction < 7``
``+`` ``-`` ``*`` ``/``, ``abs(x)``     numbers
``7.5``, ``'active'``, ``"active"``     a number, a text
``prediction``, ```my column```         a column; in backquotes if the name is not a word
======================================  ==========================================================
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from gattn.data.tables.csv_table import as_number
from gattn.training.settings import SettingsError

__all__ = ["Condition", "Value", "parse_condition", "parse_value"]

LONGEST = 2000
"""Maximum number of characters of an expression."""
DEEPEST = 50
"""Maximum number of nested parentheses and signs."""
TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])
    | (?P<name>[^\W\d]\w*)
    | `(?P<quoted>[^`]+)`
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<sign><=|>=|==|!=|[<>+\-*/(),])
    )""",
    re.VERBOSE,
)
ADVICE = {"=": "use ==", "&": "use and", "|": "use or", "!": "use not or !=", "^": "use *"}
WORDS = ("and", "or", "not", "abs")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

Cells: TypeAlias = Sequence[str]
Kind = Literal["condition", "number", "text", "column"]
Condition: TypeAlias = "Callable[[Cells], bool]"
Value: TypeAlias = "Callable[[Cells], float]"


class Token(NamedTuple):
    """Token of an expression: its kind, its text, and its position, counted from 1."""

    kind: str
    text: str
    position: int


class Term(NamedTuple):
    """Part of an expression that has a value.

    Attributes:
        kind: the type of the value; a ``column`` is converted to a number or a text, depending on
            the operator.
        evaluate: function that computes the value from the cells of a row.
        name: the name of a column.
    """

    kind: Kind
    evaluate: Callable[[Cells], object]
    name: str = ""


def parse_condition(
    name: str, expression: str, columns: Sequence[str], numbers: Sequence[str] = ()
) -> Condition:
    """Parse a condition on the columns of a table.

    Args:
        name: the name of the setting, for error messages.
        expression: the text of the condition.
        columns: the names of the columns.
        numbers: the columns that contain only numbers.

    Returns:
        A function of the cells of a row. A comparison with an empty cell is false, and so is a
        comparison of a number with a cell that is not a number.

    Raises:
        SettingsError: the expression is not valid, is not a condition, or names another column.

    >>> keep = parse_condition("where", "5 < prediction and set != 'idle'", ["prediction", "set"])
    >>> keep(["7.5", "active"]), keep(["4", "active"]), keep(["", ""])
    (True, False, False)
    """
    term = _Parser(name, expression, columns, numbers).parse()
    if term.kind != "condition":
        raise SettingsError(
            f"{name} must be a condition such as 'prediction > 7'; got {expression!r}"
        )
    evaluate = term.evaluate
    return lambda cells: bool(evaluate(cells))


def parse_value(name: str, expression: str, columns: Sequence[str]) -> Value:
    """Parse an expression whose value is a number; see :func:`parse_condition`.

    Returns:
        A function of the cells of a row; NaN if a cell is not a number.

    Raises:
        SettingsError: the expression is not valid, is not a number, or names another column.

    >>> score = parse_value("by", "prediction - 2 * std", ["prediction", "std"])
    >>> score(["7.5", "0.5"]), score(["", ""])
    (6.5, nan)
    """
    term = _Parser(name, expression, columns).parse()
    if term.kind not in ("number", "column"):
        raise SettingsError(f"{name} must be a number such as 'prediction'; got {expression!r}")
    return _number(term)


def _number(term: Term) -> Value:
    """Return the value of a term as a number; NaN for a cell that is not a number."""
    evaluate = term.evaluate
    if term.kind == "number":
        return evaluate  # pyright: ignore[reportReturnType]

    def number(cells: Cells) -> float:
        value = as_number(str(evaluate(cells)))
        return math.nan if value is None else value

    return number


@dataclass
class _Parser:
    """Recursive-descent parser; each method parses one level of precedence.

    Attributes:
        name: the name of the setting, for error messages.
        expression: the text.
        columns: the names of the columns.
        numbers: the columns that contain only numbers.
        place: the index of the next token.
        depth: the number of open parentheses and signs.
    """

    name: str
    expression: str
    columns: Sequence[str]
    numbers: Sequence[str] = ()
    place: int = 0
    depth: int = 0

    def parse(self) -> Term:
        """Parse the whole expression."""
        if len(self.expression) > LONGEST:
            count = len(self.expression)
            raise SettingsError(
                f"{self.name} must have at most {LONGEST:,} characters; got {count:,}"
            )
        self.tokens = list(self._tokens())
        term = self._either()
        if self._next.kind != "end":
            self._refuse("an operator")
        return term

    def _tokens(self) -> list[Token]:
        text, position, tokens = self.expression.rstrip(), 0, []
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                advice = ADVICE.get(text[start], "")
                self._fail(f"{text[start]!r} is not an operator", start, advice)
            start = match.start(match.lastgroup)
            tokens.append(Token(match.lastgroup, match[match.lastgroup], start + 1))
            position = match.end()
        return [*tokens, Token("end", "", len(text) + 1)]

    @property
    def _next(self) -> Token:
        return self.tokens[self.place]

    def _take(self, *texts: str) -> str:
        """If the next token is one of these words or signs, return its text and move to the
        following token.
        """
        token = self._next
        if token.kind in ("sign", "name") and token.text in texts:
            self.place += 1
            return token.text
        return ""

    def _either(self) -> Term:
        term = self._both()
        while self._take("or"):
            term = self._joined(term, self._both(), "or", any)
        return term

    def _both(self) -> Term:
        term = self._negated()
        while self._take("and"):
            term = self._joined(term, self._negated(), "and", all)
        return term

    def _joined(
        self, first: Term, second: Term, word: str, join: Callable[[list[object]], bool]
    ) -> Term:
        for term in (first, second):
            if term.kind != "condition":
                self._fail(f"{word!r} needs a condition on each side", self._next.position - 1)
        a, b = first.evaluate, second.evaluate
        return Term("condition", lambda cells: join([a(cells), b(cells)]))

    def _negated(self) -> Term:
        if not self._take("not"):
            return self._comparison()
        term = self._nested(self._negated)
        if term.kind != "condition":
            self._fail("'not' needs a condition", self._next.position - 1)
        return Term("condition", lambda cells: not term.evaluate(cells))

    def _comparison(self) -> Term:
        first = self._sum()
        checks: list[Callable[[Cells], object]] = []
        while sign := self._take(*COMPARISONS):
            second = self._sum()
            checks.append(self._compared(first, sign, second))
            first = second
        if not checks:
            return first
        return Term("condition", lambda cells: all(check(cells) for check in checks))

    def _compared(self, first: Term, sign: str, second: Term) -> Callable[[Cells], object]:
        """Return the comparison of two terms. They are compared as texts if one of them is a
        text.
        """
        kinds, compare = {first.kind, second.kind}, COMPARISONS[sign]
        if "condition" in kinds or {"text", "number"} <= kinds:
            self._fail(f"{sign!r} needs two numbers or two texts", self._next.position - 1)
        if "text" in kinds:
            self._check_texts(first, sign, second)
            a, b = first.evaluate, second.evaluate
            # An empty cell is a missing value, which is neither less nor greater than a text.
            return lambda cells: bool(a(cells)) and bool(b(cells)) and compare(a(cells), b(cells))
        one, other = _number(first), _number(second)
        # The value NaN, which stands for an empty cell, differs from every number.
        if sign == "!=":
            return lambda cells: one(cells) < other(cells) or one(cells) > other(cells)
        return lambda cells: compare(one(cells), other(cells))

    def _check_texts(self, first: Term, sign: str, second: Term) -> None:
        """Raise an error if a column of numbers is compared with a text, or if an order compares a
        column with a number in quotes.
        """
        texts = [str(term.evaluate(())) for term in (first, second) if term.kind == "text"]
        is_number = any(term.name in self.numbers for term in (first, second))
        is_order = sign not in ("==", "!=")
        if is_number or (is_order and any(as_number(text) is not None for text in texts)):
            self._fail(
                f"{sign!r} compares a number with the text {texts[0]!r}", self._next.position - 1,
                "write a number without quotes",
            )  # fmt: skip

    def _sum(self) -> Term:
        return self._operation(("+", "-"), self._product)

    def _product(self) -> Term:
        return self._operation(("*", "/"), self._factor)

    def _operation(self, signs: tuple[str, str], operand: Callable[[], Term]) -> Term:
        term = operand()
        while sign := self._take(*signs):
            a, b = self._as_number(term, sign), self._as_number(operand(), sign)
            term = Term("number", _computed(sign, a, b))
        return term

    def _as_number(self, term: Term, sign: str) -> Value:
        if term.kind not in ("number", "column"):
            self._fail(f"{sign!r} needs numbers", self._next.position - 1)
        return _number(term)

    def _factor(self) -> Term:
        if sign := self._take("-", "+"):
            number = self._as_number(self._nested(self._factor), sign)
            return Term("number", (lambda cells: -number(cells)) if sign == "-" else number)
        if self._take("abs"):
            if self._next.text != "(":
                self._refuse("( after abs")
            value = self._as_number(self._atom(), "abs")
            return Term("number", lambda cells: abs(value(cells)))
        return self._atom()

    def _atom(self) -> Term:
        if self._take("("):
            term = self._nested(self._either)
            if not self._take(")"):
                self._refuse("a closing parenthesis")
            return term
        token = self._next
        if token.kind == "number":
            constant = float(token.text)
            self.place += 1
            return Term("number", lambda cells: constant)
        if token.kind == "text":
            self.place += 1
            return Term("text", lambda cells: token.text[1:-1])
        if token.kind == "quoted" or (token.kind == "name" and token.text not in WORDS):
            if token.text not in self.columns:
                names = ", ".join(self.columns)
                self._fail(f"no column {token.text!r}; the columns are {names}", token.position - 1)
            self.place += 1
            place = self.columns.index(token.text)
            return Term("column", lambda cells: cells[place], token.text)
        self._refuse("a number, a text or a column")

    def _nested(self, parse: Callable[[], Term]) -> Term:
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail(f"more than {DEEPEST} nested parentheses", self._next.position - 1)
        term = parse()
        self.depth -= 1
        return term

    def _refuse(self, expected: str) -> NoReturn:
        token = self._next
        text = repr(token.text) if token.kind != "end" else "the end"
        self._fail(f"expected {expected}; got {text}", token.position - 1)

    def _fail(self, reason: str, position: int, advice: str = "") -> NoReturn:
        advice = f" ({advice})" if advice else ""
        raise SettingsError(
            f"{self.name}: {reason}{advice}, at character {position + 1} of {self.expression!r}"
        )


def _computed(sign: str, a: Value, b: Value) -> Value:
    """Return the function that combines two numbers by an arithmetic operator."""
    if sign == "+":
        return lambda cells: a(cells) + b(cells)
    if sign == "-":
        return lambda cells: a(cells) - b(cells)
    if sign == "*":
        return lambda cells: a(cells) * b(cells)
    return lambda cells: _quotient(a(cells), b(cells))


def _quotient(a: float, b: float) -> float:
    """Divide two numbers as IEEE 754 does: x/0 is infinite, and 0/0 is NaN."""
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
