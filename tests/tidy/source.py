"""C as far as tidy needs it: tokens, comments, directives, and the items at file scope.

This is no compiler. It reads code that compiles, knows nothing of types, and takes both branches of
an #if as they come.
"""

import functools
import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+ | \\\n)
  | (?P<newline>\n)
  | (?P<comment>/\*.*?\*/ | //[^\n]*)
  | (?P<directive>\#(?:\\\n | /\*.*?\*/ | [^\n])*)
  | (?P<text>[LuU8]*"(?:\\.|[^"\\])*" | [LuU]?'(?:\\.|[^'\\])*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<sign>->|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)

KEYWORDS = frozenset(
    """_Alignas _Alignof _Atomic _Bool _Generic _Noreturn _Static_assert _Thread_local __extension__
    __thread alignas alignof auto break case char const continue default do double else enum extern
    float for goto if inline int long register restrict return short signed sizeof static
    static_assert struct switch thread_local typedef union unsigned void volatile while""".split()
)
ASSERTS = ("_Static_assert", "static_assert")
RECORDS = ("struct", "union", "enum")


class Token(NamedTuple):
    kind: str
    text: str
    line: int


class Comment(NamedTuple):
    text: str
    line: int
    last_line: int


class Item(NamedTuple):
    """Something at file scope, with attributes taken out.

    head holds the tokens outside braces ({} stands for what was in them), body those inside.
    kind is function, type, typedef, assert, macro or variable; name is what it declares, if any.
    """

    kind: str
    name: str
    head: list
    body: list
    line: int


class Source(NamedTuple):
    tokens: list
    comments: list
    directives: list


def read(text):
    """Split C text into tokens, comments and directives (as tokens, continuation lines included)."""
    tokens, comments, directives = [], [], []
    line = 1
    for match in TOKEN.finditer(text):
        kind, piece = match.lastgroup, match.group()
        lines = piece.count("\n")
        if kind == "comment":
            comments.append(Comment(piece, line, line + lines))
        elif kind == "directive":
            directives.append(Token(kind, piece, line))
        elif kind not in ("space", "newline"):
            tokens.append(Token(kind, piece, line))
        line += lines
    return Source(tokens, comments, directives)


def closing(tokens, start):
    """Index after the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def without_attributes(tokens, attributes):
    """Take out __attribute__, _Alignas, asm labels and the macros named in `attributes`.

    Where an attribute opens an item, the next token takes its line.
    """
    kept = []
    opening_line = None
    index = 0
    while index < len(tokens):
        token = tokens[index]
        followed = index + 1 < len(tokens) and tokens[index + 1].text == "("
        at_start = not kept or kept[-1].text in (";", "}", "{")
        if token.text in ("__attribute__", "_Alignas", "alignas", "__asm__", "__extension__") or token.text in attributes:
            if at_start and opening_line is None:
                opening_line = token.line
            takes_arguments = attributes.get(token.text, token.text != "__extension__")
            index = closing(tokens, index + 1) if followed and takes_arguments else index + 1
            continue
        if token.text == "_Atomic" and followed:
            end = closing(tokens, index + 1)
            tokens = tokens[: index + 1] + tokens[index + 2 : end - 1] + tokens[end:]
        kept.append(token if opening_line is None else token._replace(line=opening_line))
        opening_line = None
        index += 1
    return kept


def items(tokens, attributes):
    """The items at file scope. `attributes` maps attribute macros to whether they take arguments."""
    found = []
    head, body = [], []
    braces = parentheses = 0
    is_function = False
    for token in without_attributes(tokens, attributes):
        text = token.text
        if braces:
            braces += {"{": 1, "}": -1}.get(text, 0)
            if braces:
                body.append(token)
            elif is_function:
                found.append(make_item(head, body))
                head, body, is_function = [], [], False
            continue
        if not head and text in (";", "}"):
            continue
        if text == "{" and not parentheses:
            if len(head) == 2 and head[0].text == "extern" and head[1].kind == "text":
                head = []
                continue
            braces = 1
            is_function = head[-1].text == ")" and all(t.text != "=" for t in head) and head[0].text != "typedef"
            head.append(Token("sign", "{}", token.line))
            continue
        parentheses += {"(": 1, ")": -1}.get(text, 0)
        if text == ";" and not parentheses:
            found.append(make_item(head, body))
            head, body = [], []
            continue
        head.append(token)
        if text == ")" and not parentheses and is_macro_use(head):
            found.append(Item("macro", head[0].text, head, [], head[0].line))
            head, body = [], []
    return found


def is_macro_use(head):
    return len(head) > 2 and head[1].text == "(" and head[0].text.isupper() and head[0].kind == "name"


def make_item(head, body):
    first = head[0].text
    if first in ASSERTS:
        return Item("assert", "", head, body, head[0].line)
    if first == "typedef":
        return Item("typedef", typedef_name(head), head, body, head[0].line)
    name = function_name(head)
    if name:
        return Item("function", name, head, body, head[0].line)
    specifiers = [t.text for t in head if t.text not in ("static", "extern", "const")]
    if specifiers and specifiers[0] in RECORDS:
        is_anonymous = len(specifiers) > 1 and specifiers[1] == "{}"
        if len(specifiers) <= (2 if is_anonymous else 3) and (len(specifiers) < 3 or specifiers[2] == "{}"):
            return Item("type", "" if is_anonymous else specifiers[1], head, body, head[0].line)
    return Item("variable", variable_name(head), head, body, head[0].line)


def function_name(head):
    for index, token in enumerate(head[:-1]):
        if token.text in ("=", "["):
            return None
        if token.kind == "name" and token.text not in KEYWORDS and head[index + 1].text == "(":
            return None if head[index + 2].text == "*" else token.text
    return None


def typedef_name(head):
    pointer = [head[i + 1].text for i, t in enumerate(head[:-1]) if t.text == "*" and head[i - 1].text == "("]
    names = [t.text for t in head if t.kind == "name"]
    return pointer[0] if pointer else function_name(head) or names[-1]


def variable_name(head):
    names = []
    for token in head:
        if token.text in ("=", "[", ",", ":") or (token.text == ")" and names):
            break
        if token.kind == "name":
            names.append(token.text)
    return names[-1] if names else ""


def is_constant(head):
    """Whether the object that a declaration makes (not what it points to) is const."""
    declared = []
    for token in head:
        if token.text in ("=", "["):
            break
        declared.append(token.text)
    pointers = [index for index, text in enumerate(declared) if text == "*"]
    return "const" in declared[pointers[-1] if pointers else 0 :]


def local_statics(body):
    """The declarations of static variables in a function's body, each as a head."""
    for index, token in enumerate(body):
        if token.text in ("static", "_Thread_local", "__thread") and (index == 0 or body[index - 1].text in (";", "{", "}", ":")):
            head = []
            for following in body[index:]:
                if following.text in (";", "=", "{"):
                    break
                head.append(following)
            yield head


def attribute_macros(texts):
    """Macros that stand for an attribute, mapped to whether they take arguments."""
    pattern = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?[ \t]+__attribute__", re.MULTILINE)
    return {name: bool(arguments) for text in texts for name, arguments in pattern.findall(text)}


@functools.lru_cache(maxsize=None)
def define_tokens(directive):
    """The tokens of a macro's replacement, line numbers counted from its first line."""
    match = re.match(r"#[ \t]*define[ \t]+\w+(\([^)]*\))?", directive)
    return read(directive[match.end() :]).tokens if match else []
