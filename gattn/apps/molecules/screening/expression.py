"""Expressions over the columns of a table, such as ``prediction > 7 and std < 0.5``.

======================================  ==========================================================
``or``, ``and``, ``not``                conditions
``<`` ``<=`` ``>`` ``>=`` ``==`` ``!=`` comparisons, also in chains: ``5 < prediction < 7``
``+`` ``-`` ``*`` ``/``, ``abs(x)``     numbers
``7.5``, ``'active'``, ``"active"``     a number, a text
``prediction``, ```my column```         a column; in backquotes if the name is not a word
======================================  ==========================================================

Python's parser gives the syntax tree. The tree is never executed as Python code: only the nodes of
this table become functions of the cells of a row.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.tables.csv_table import as_number

__all__ = ["Condition", "Value", "parse_condition", "parse_value"]

LONGEST = 2000
"""Maximum number of characters of an expression."""
WORD = re.compile(r"""('[^']*'|"[^"]*")|`([^`]+)`|(?<![\w.])([^\W\d]\w*)""")
"""Pattern of a text, of a column in backquotes, and of a word."""
OPERATORS = ("and", "or", "not", "abs")
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}

Cells: TypeAlias = Sequence[str]
Condition: TypeAlias = "Callable[[Cells], bool]"
Value: TypeAlias = "Callable[[Cells], float]"


class Term(NamedTuple):
    """Part of an expression that has a value.

    Attributes:
        kind: the type of the value; a ``column`` is converted to a number or a text, depending on
            the operator.
        evaluate: function that computes the value from the cells of a row.
        name: the name of a column.
    """

    kind: Literal["condition", "number", "text", "column"]
    evaluate: Callable[[Cells], Any]
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
    return term.evaluate


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
        return evaluate

    def number(cells: Cells) -> float:
        value = as_number(evaluate(cells))
        return math.nan if value is None else value

    return number


class _Parser:
    """Converter from the syntax tree of an expression to functions of the cells of a row.

    Args:
        name: the name of the setting, for error messages.
        expression: the text.
        columns: the names of the columns.
        numbers: the columns that contain only numbers.
    """

    def __init__(
        self, name: str, expression: str, columns: Sequence[str], numbers: Sequence[str] = ()
    ) -> None:
        self.name, self.expression = name, expression
        self.columns, self.numbers = columns, numbers
        self.words: list[Term] = []

    def parse(self) -> Term:
        """Parse the whole expression."""
        if len(self.expression) > LONGEST:
            self._fail(f"more than {LONGEST:,} characters")
        # Python's parser changes escapes in texts and the letters of names, and reserves words. It
        # therefore sees an identifier in place of each text and column.
        text = WORD.sub(self._word, self.expression).strip()
        try:
            return self._term(ast.parse(text, mode="eval").body)
        except SyntaxError:
            self._fail("not a valid expression (use ==, !=, and, or, not)")
        except (RecursionError, MemoryError):
            self._fail("too many nested parentheses or signs")

    def _word(self, match: re.Match[str]) -> str:
        """Store a text or a column of the expression; return the identifier of its place."""
        text, quoted, word = match.groups()
        if word in OPERATORS:
            return word
        if text:
            self.words.append(Term("text", lambda cells: text[1:-1]))
        else:
            column = quoted or word
            if column not in self.columns:
                self._fail(f"no column {column!r}; the columns are {', '.join(self.columns)}")
            place = self.columns.index(column)
            self.words.append(Term("column", lambda cells: cells[place], column))
        return f" _{len(self.words) - 1} "

    def _term(self, node: ast.expr) -> Term:
        match node:
            case ast.Name(id=name) if name != "abs":
                return self.words[int(name[1:])]
            case ast.Constant(value=int() | float() as value):
                constant = float(value)
                return Term("number", lambda cells: constant)
            case ast.BoolOp(op=joint, values=nodes):
                terms = [self._operand(each, "condition") for each in nodes]
                join = all if isinstance(joint, ast.And) else any
                return Term("condition", lambda cells: join(each(cells) for each in terms))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated = self._operand(operand, "condition")
                return Term("condition", lambda cells: not negated(cells))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                number = self._operand(operand, "number")
                return Term("number", lambda cells: -number(cells))
            case ast.Call(func=ast.Name(id="abs"), args=[operand], keywords=[]):
                number = self._operand(operand, "number")
                return Term("number", lambda cells: abs(number(cells)))
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as sign):
                a, b = (self._operand(each, "number") for each in (node.left, node.right))
                compute = {
                    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                    ast.Div: _quotient,
                }[type(sign)]  # fmt: skip
                return Term("number", lambda cells: compute(a(cells), b(cells)))
            case ast.Compare(ops=signs) if all(type(sign) in COMPARISONS for sign in signs):
                terms = [self._term(each) for each in (node.left, *node.comparators)]
                pairs = zip(signs, pairwise(terms))
                checks = [self._comparison(type(sign), *pair) for sign, pair in pairs]
                return Term("condition", lambda cells: all(check(cells) for check in checks))
        self._fail("an operator that is not supported (use and, or, not, + - * /, abs)")

    def _operand(self, node: ast.expr, kind: Literal["condition", "number"]) -> Value:
        """Return the function of an operand that must be a condition or a number."""
        term = self._term(node)
        if kind == "condition" and term.kind == kind:
            return term.evaluate
        if kind == "number" and term.kind in ("number", "column"):
            return _number(term)
        self._fail(f"an operator needs a {kind}; it has a {term.kind}")

    def _comparison(self, kind: type[ast.cmpop], first: Term, second: Term) -> Condition:
        """Return the comparison of two terms. They are compared as texts if one of them is a
        text.
        """
        sign, compare = COMPARISONS[kind]
        kinds = {first.kind, second.kind}
        if "condition" in kinds or {"text", "number"} <= kinds:
            self._fail(f"{sign!r} needs two numbers or two texts")
        if "text" in kinds:
            self._check_texts(first, sign, second)
            a, b = first.evaluate, second.evaluate
            # An empty cell is a missing value, which is neither less nor greater than a text.
            return lambda cells: bool(a(cells) and b(cells)) and compare(a(cells), b(cells))
        one, other = _number(first), _number(second)
        # The value NaN, which stands for an empty cell, differs from every number.
        if sign == "!=":
            return lambda cells: one(cells) < other(cells) or one(cells) > other(cells)
        return lambda cells: compare(one(cells), other(cells))

    def _check_texts(self, first: Term, sign: str, second: Term) -> None:
        """Raise an error if a column of numbers is compared with a text, or if an order compares a
        column with a number in quotes.
        """
        texts = [term.evaluate(()) for term in (first, second) if term.kind == "text"]
        is_number = any(term.name in self.numbers for term in (first, second))
        is_order = sign not in ("==", "!=")
        if is_number or (is_order and any(as_number(text) is not None for text in texts)):
            self._fail(
                f"{sign!r} compares a number with the text {texts[0]!r} "
                "(write a number without quotes)"
            )

    def _fail(self, reason: str) -> NoReturn:
        raise SettingsError(f"{self.name}: {reason}; got {self.expression!r}")


def _quotient(a: float, b: float) -> float:
    """Divide two numbers as IEEE 754 does: x/0 is infinite, and 0/0 is NaN."""
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
