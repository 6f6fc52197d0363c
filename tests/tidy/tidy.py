#!/usr/bin/python3
"""Read the repository and complain about what its rules forbid.

    tidy.py [ROOT]

Prints `path:line: rule: what is wrong and what to do`, a line each, and exits with 1 if there is any.
canaries.py beside this file breaks every rule on purpose and expects to be told.
"""

import os
import posixpath
import re
import sys
from typing import NamedTuple

import source

# What a rule forbids in general and is right in one place: (rule, path, name) and the reason.
# An entry that nothing needs any more is reported too.
ALLOWED = {
    ("mutable-global", "src/task/sched.c", "thread_sched"): "which scheduler a thread runs is the thread's own",
    ("dead-file", "tests/library/program.c", "program.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/counter.c", "counter.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/hello.c", "hello.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/many.c", "many.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/ring.c", "ring.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/anywhere.c", "anywhere.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/calls.c", "calls.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/place.c", "place.c"): "compiled by tests/library/installed",
    ("dead-file", "docs/examples/together.c", "together.c"): "compiled by tests/library/installed",
}

# Layers whose words and names are still to be rewritten by the rules of prose below: none. The canaries exempt one.
PROSE_EXEMPT = ()

LINES_MAX = 800
PRODUCTION = ("src/", "include/tarn/", "lab/")
PROGRAM_SUFFIXES = (".c", ".h", ".S", ".py", ".sh", ".build", "")
TEXT_SUFFIXES = PROGRAM_SUFFIXES + (".md", ".txt", ".map", ".service", ".options")
SKIPPED_FOLDERS = re.compile(r"^(\.git|build.*|__pycache__|corpus|results)$")

# Each function, why not, and where it may be called all the same ("" is outside src/).
ANYWHERE = {}
for names, instead in (
    ("strcpy strcat sprintf vsprintf gets", "it writes without a bound; use snprintf or memcpy with a length"),
    ("atoi atol atoll", "it cannot report an error; use base_settings or strtoull with its checks"),
    ("strtok", "it keeps hidden state; use strtok_r or parse by hand"),
    ("rand srand random srandom", "chance comes from the context: base_random or task_rng()"),
    ("alloca", "stacks of tasks are small; take memory from a pool or an array of fixed size"),
    ("system popen", "it starts a shell; do it here"),
):
    ANYWHERE.update(dict.fromkeys(names.split(), instead))
IN_LAYERS = {}
for names, instead, layers in (
    ("time clock_gettime gettimeofday", "time comes from the context: task_now(), task_wall()", "task"),
    ("getpid", "who the process is, only the command knows; have it passed down", "task cli"),
    ("malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf aligned_alloc posix_memalign",
     "memory is accounted: base_alloc() and base_free()", "base"),
    ("sleep usleep nanosleep clock_nanosleep", "it blocks every task of the scheduler: task_sleep()", "base task"),
    ("signal sigaction", "a library installs no signal handler; only the command does", "cli"),
):
    IN_LAYERS.update(dict.fromkeys(names.split(), (instead, layers.split())))


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    name: str  # what an entry of ALLOWED would name
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


class Tree:
    """The files of a repository by their path, and what several rules derive from them."""

    def __init__(self, files):
        self.files = files
        self.c_paths = sorted(p for p in files if p.endswith((".c", ".h")))
        self.attributes = source.attribute_macros(files[p] for p in self.c_paths if p.endswith(".h"))
        self.sources = {p: source.read(files[p]) for p in self.c_paths}
        self.items = {p: source.items(s.tokens, self.attributes) for p, s in self.sources.items()}
        self.layers = {}  # name -> (line, names it may use)
        for number, line in enumerate(files.get("src/layers", "").splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                name, _, uses = line.partition(":")
                self.layers[name.strip()] = (number, uses.split())
        self.folders = sorted({layer_of(p) for p in files} - {""})

    def headers(self):
        return [p for p in self.c_paths if p.endswith(".h") and p.startswith(PRODUCTION)]

    def texts(self):
        return sorted(p for p in self.files if suffix(p) in TEXT_SUFFIXES and p != "LICENSE")


def load(root):
    files = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if not SKIPPED_FOLDERS.match(s)]
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if suffix(relative) in TEXT_SUFFIXES and os.path.isfile(path):
                try:
                    with open(path, encoding="utf-8", newline="") as file:
                        files[relative] = file.read()
                except UnicodeDecodeError:
                    continue  # not a text
    return files


def suffix(path):
    return posixpath.splitext(posixpath.basename(path))[1]


def layer_of(path):
    """The layer that a file belongs to: its folder in src/, or the laboratory; "" for everything else."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return "lab" if parts[0] == "lab" and len(parts) > 1 else ""


def folder_of(layer):
    return layer if layer == "lab" else "src/" + layer


def is_test(path):
    return path.endswith(("_test.c", "testing.c", "testing.h")) or not path.startswith(PRODUCTION)


RULES = {}


def rule(name):
    def register(check):
        RULES[name] = check
        return check

    return register


# ---- layers ----------------------------------------------------------------------------------


@rule("layers")
def check_layers(tree):
    """src/layers lists every folder, and a layer only after all that it uses: so there is no circle."""
    seen = []
    for layer, (line, uses) in tree.layers.items():
        if layer not in tree.folders:
            yield Finding("src/layers", line, "layers", layer, f"there is no folder {folder_of(layer)}; take the line out")
        for used in uses:
            if used not in seen:
                yield Finding("src/layers", line, "layers", used,
                              f"{layer} uses {used}, which no line above lists; an edge goes down, never up or round")
        seen.append(layer)
    for folder in tree.folders:
        if folder not in tree.layers:
            yield Finding("src/layers", 1, "layers", folder, f"{folder_of(folder)} is not listed; say what it may use")


@rule("layer-readme")
def check_readme(tree):
    """Every layer has a README with a line about each of its files."""
    for layer in tree.folders:
        readme = f"{folder_of(layer)}/README.md"
        if not tree.files.get(readme, "").strip():
            yield Finding(readme, 1, "layer-readme", layer, "a layer has a README.md; STYLE says what is in it")
            continue
        words = set(re.findall(r"\w+", tree.files[readme]))
        for path in tree.c_paths:
            stem = posixpath.splitext(posixpath.basename(path))[0]
            if layer_of(path) == layer and not is_test(path) and stem not in words:
                yield Finding(readme, 1, "layer-readme", stem, f"it has no line about {path}; write one")


@rule("include")
def check_includes(tree):
    for path in tree.c_paths:
        for directive in tree.sources[path].directives:
            match = re.match(r'#[ \t]*include[ \t]*(["<])([^">]+)[">]', directive.text)
            if match:
                message = wrong_include(tree, path, match.group(1) == '"', match.group(2))
                if message:
                    yield Finding(path, directive.line, "include", match.group(2), message)


def wrong_include(tree, path, is_quoted, included):
    layer, used = layer_of(path), included.split("/")[0]
    if not is_quoted:
        if used in tree.layers and "/" in included:
            return f'write "{included}": angle brackets are for <tarn/...> and other people\'s headers'
        return None
    if path.startswith("include/"):
        return "a public header includes only <tarn/...> and the system's headers: users have no others"
    if used not in tree.layers or "/" not in included:
        if layer:
            return f'write "LAYER/{included}", with a layer of src/layers, or <...> for a header from elsewhere'
        return None
    if layer and used != layer and used not in tree.layers.get(layer, (0, []))[1]:
        return f"{layer} may not use {used}; src/layers has no such edge: move the code, or argue for the edge"
    folder = posixpath.dirname(folder_of(used) + included.removeprefix(used))
    if included.endswith("_internal.h") and not (posixpath.dirname(path) + "/").startswith(folder + "/"):
        return f"{included} is for its own folder; use or extend {used}'s public header"
    return None


# ---- calls and variables ---------------------------------------------------------------------


@rule("banned-call")
def check_calls(tree):
    for path in tree.c_paths:
        parsed = tree.sources[path]
        for name, line in calls(parsed.tokens, 0):
            yield from banned(path, name, line)
        for directive in parsed.directives:
            for name, line in calls(source.define_tokens(directive.text), directive.line - 1):
                yield from banned(path, name, line)


def calls(tokens, line_offset):
    for index, token in enumerate(tokens[:-1]):
        if token.kind == "name" and tokens[index + 1].text == "(":
            before = tokens[index - 1] if index else None
            is_member = before and before.text in (".", "->")
            is_declaration = before and before.kind == "name" and before.text not in ("return", "else", "do", "case")
            if not is_member and not is_declaration:
                yield token.text, token.line + line_offset


def banned(path, name, line):
    if name in ANYWHERE:
        yield Finding(path, line, "banned-call", name, f"{name}(): {ANYWHERE[name]}")
    elif name in IN_LAYERS and not is_test(path):
        instead, layers = IN_LAYERS[name]
        if layer_of(path) not in layers:
            yield Finding(path, line, "banned-call", name, f"{name}(): {instead}")


@rule("mutable-global")
def check_globals(tree):
    """No state outside of objects, so that many nodes live in one process. Tests may have their own."""
    for path in tree.c_paths:
        if is_test(path):
            continue
        for item in tree.items[path]:
            heads = [item.head] if item.kind == "variable" else []
            if item.kind == "function":
                heads += source.local_statics(item.body)
            for head in heads:
                if not source.is_constant(head):
                    name = source.variable_name(head)
                    yield Finding(path, head[0].line, "mutable-global", name,
                                  f"{name} can change; make it const, or a member of an object that is passed along")


# ---- headers ---------------------------------------------------------------------------------


def group_members(tree, comment):
    """The members of the struct whose functions a comment announces; None if it announces none."""
    match = re.match(r"/\*\* Members? of struct (\w+)", comment)
    if not match:
        return None
    pattern = re.compile(r"^struct " + match[1] + r" \{.*?^\}", re.DOTALL | re.MULTILINE)
    return [name for text in tree.files.values() for body in pattern.findall(text) for name in re.findall(r"\(\*(\w+)\)", body)]


@rule("docstring")
def check_docstrings(tree):
    for path in tree.headers():
        if path.endswith("testing.h"):
            continue  # what tests share; nobody else includes it
        ends = {c.last_line: c.text for c in tree.sources[path].comments}
        for item in tree.items[path]:
            members = group_members(tree, ends.get(item.line - 1, "")) if item.kind == "function" else None
            if members is not None:
                ends[item.head[-1].line] = ends[item.line - 1]  # the next line may go on with the group
                if not any(item.name.endswith("_" + member) for member in members):
                    yield Finding(path, item.line, "docstring", item.name,
                                  f"{item.name}() is no member of the struct that the comment above names")
            elif item.kind == "function" and not ends.get(item.line - 1, "").startswith("/**"):
                yield Finding(path, item.line, "docstring", item.name,
                              f"{item.name}() has no /** ... */ directly above; say what it does, as STYLE shows")


@rule("export-prefix")
def check_prefixes(tree):
    for path in tree.headers():
        if not path.startswith("include/tarn/"):
            continue
        for name, line in declared_names(tree, path):
            prefix = "TARN_" if name.isupper() else "tarn_"
            if not name.startswith(prefix):
                yield Finding(path, line, "export-prefix", name,
                              f"{name} would be every user's; exported names start with {prefix}")


def declared_names(tree, path):
    for directive in tree.sources[path].directives:
        match = re.match(r"#[ \t]*define[ \t]+(\w+)", directive.text)
        if match:
            yield match.group(1), directive.line
    for item in tree.items[path]:
        if item.name:
            yield item.name, item.line
        if any(t.text == "enum" for t in item.head):
            for index, token in enumerate(item.body):
                if token.kind == "name" and (index == 0 or item.body[index - 1].text == ","):
                    yield token.text, token.line


@rule("format-assert")
def check_formats(tree):
    """Bytes that leave the process have a fixed size: structs in files named *format*, named *_format,
    or under a comment that begins with `format:`."""
    for path in tree.c_paths:
        if is_test(path):
            continue
        asserted = set()
        for item in tree.items[path]:
            if item.kind == "assert":
                texts = " ".join(t.text for t in item.head)
                asserted.update(re.findall(r"sizeof \( (?:struct|union) (\w+) \)", texts))
        marked = {c.last_line for c in tree.sources[path].comments if re.match(r"/[*/]+\s*format:", c.text)}
        for item in tree.items[path]:
            is_record = item.kind == "type" and item.name and item.body and item.head[0].text in ("struct", "union")
            is_format = "format" in posixpath.basename(path) or item.name.endswith("_format") or item.line - 1 in marked
            if is_record and is_format and item.name not in asserted:
                yield Finding(path, item.line, "format-assert", item.name,
                              f"{item.name} is a format; add _Static_assert(sizeof(struct {item.name}) == ...)")


# ---- prose -----------------------------------------------------------------------------------

# Words that stand for an actor or a thing without naming it. "who" is right behind the person that it belongs to ("the
# client who asked"), and wrong where a sentence or a part of one begins with it or a small word leads up to it.
RIDDLES = {
    re.compile(r"\bwhoever\b", re.I): 'name the actor instead of "whoever"',
    re.compile(r"(?:^|[.:;(]\s|\b(?:of|for|to|by|from|with|as|if|that|than|and|or|but|at|on)\s)who\b(?! (?:is|are) who)",
               re.I): 'name the actor instead of a bare "who"',
    re.compile(r"\bso many\b(?! (?:\w+ ){1,3}that)", re.I): 'say the number or what it counts instead of "so many"',
    re.compile(r"\bin vain\b", re.I): 'say what failed instead of "in vain"',
    re.compile(r"\bof the dead\b", re.I): 'name the thing instead of "of the dead"',
}


def prose_of(tree):
    """Comments and pages, each with its path and first line, where they are not exempt."""
    for path in tree.c_paths:
        if layer_of(path) not in PROSE_EXEMPT and not is_test(path):
            for comment in tree.sources[path].comments:
                yield path, comment.line, comment.text
    for path, text in tree.files.items():
        if path.endswith(".md") and layer_of(path) not in PROSE_EXEMPT:
            yield path, 1, text


@rule("riddle")
def check_riddles(tree):
    for path, first_line, text in prose_of(tree):
        words = re.sub(r"[ \t]*\n[ \t]*\*?(?!/)[ \t]*", lambda m: "\n", text).strip("/* ")
        for pattern, advice in RIDDLES.items():
            for match in pattern.finditer(words.replace("\n", " ")):
                line = first_line + words.count("\n", 0, match.end())
                yield Finding(path, line, "riddle", match.group().strip(), advice)


@rule("lone-verb")
def check_statics(tree):
    """A static function of one word tells its reader nothing where several files have another one of that name."""
    places = {}
    for path in tree.c_paths:
        if is_test(path) or not path.endswith(".c"):
            continue
        for item in tree.items[path]:
            if item.kind == "function" and item.body and item.head[0].text == "static" and "_" not in item.name:
                places.setdefault(item.name, []).append((path, item.line))
    for name, found in places.items():
        for path, line in found:
            if len({p for p, _ in found}) > 3 and layer_of(path) not in PROSE_EXEMPT:
                yield Finding(path, line, "lone-verb", name,
                              f"{len(found)} files have a static {name}(); say its object, too: verb_object")


@rule("first-sentence")
def check_first_sentences(tree):
    for path in tree.c_paths:
        if path.endswith(".c") and layer_of(path) and layer_of(path) not in PROSE_EXEMPT:
            first = next(iter(tree.sources[path].comments), None)
            if not first or first.line != 1 or not re.search(r"[.:?]", first.text):
                yield Finding(path, 1, "first-sentence", posixpath.basename(path),
                              "begin with a comment, a sentence that says what the file holds")


# ---- files -----------------------------------------------------------------------------------


def meson_strings(tree):
    """Every path that a meson.build could mean by one of its strings, and the names of unit tests."""
    paths, unit_tests, words = set(), set(), {}
    for path, text in tree.files.items():
        if posixpath.basename(path) != "meson.build":
            continue
        folder = posixpath.dirname(path)
        code = re.sub(r"#.*", "", text)
        strings = re.findall(r"'([^'\n]*)'", code)
        words[folder] = set(strings)
        paths.update(posixpath.normpath(posixpath.join(folder, s)) for s in strings)
        for names in re.findall(r"unit_tests\s*\+?=\s*\[(.*?)\]", code, re.DOTALL):
            unit_tests.update(posixpath.join(folder, s) + "_test.c" for s in re.findall(r"'([^'\n]*)'", names))
    return paths, unit_tests, words


@rule("dead-test")
def check_dead_tests(tree):
    paths, unit_tests, _ = meson_strings(tree)
    for path in tree.c_paths:
        if layer_of(path) and path.endswith("_test.c") and path not in paths and path not in unit_tests:
            yield Finding(path, 1, "dead-test", posixpath.basename(path),
                          "nothing runs this test; list it in unit_tests of its layer's meson.build")


@rule("dead-file")
def check_dead_files(tree):
    """Outside src/ the name without its suffix is enough: loops in meson.build add the suffix."""
    paths, _, words = meson_strings(tree)
    for path in tree.c_paths:
        stem = posixpath.splitext(posixpath.basename(path))[0]
        is_listed = path in paths or (layer_of(path) == "" and stem in words.get(posixpath.dirname(path), ()))
        if path.endswith(".c") and not path.endswith("_test.c") and not is_listed:
            yield Finding(path, 1, "dead-file", posixpath.basename(path), "no meson.build compiles it; list it or remove it")


@rule("file-length")
def check_length(tree):
    for path in tree.texts():
        lines = tree.files[path].count("\n")
        if suffix(path) in PROGRAM_SUFFIXES and lines > LINES_MAX:
            yield Finding(path, LINES_MAX + 1, "file-length", posixpath.basename(path),
                          f"{lines} lines; a file is one thing with a name, at most {LINES_MAX} lines: split it")


@rule("leftover")
def check_leftovers(tree):
    words = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "X" "XX")) + r")\b")
    for path in tree.texts():
        for number, line in enumerate(tree.files[path].split("\n"), 1):
            match = words.search(line)
            if match:
                yield Finding(path, number, "leftover", match.group(), f"{match.group()}: do it now, or open an issue")


@rule("whitespace")
def check_whitespace(tree):
    for path in tree.texts():
        text = tree.files[path]
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line and posixpath.basename(path) != "Makefile":
                yield Finding(path, number, "whitespace", "tab", "a tab; indent with spaces")
            if line != line.rstrip():
                yield Finding(path, number, "whitespace", "trailing", "white space at the end of the line; take it off")
        if text and not text.endswith("\n"):
            yield Finding(path, text.count("\n") + 1, "whitespace", "newline", "the last line has no end; add a newline")


# ---- all together ----------------------------------------------------------------------------


def check(files, allowed):
    """All findings of a tree, those that `allowed` excuses taken out, stale excuses put in."""
    tree = Tree(files)
    findings, used = [], set()
    for check_rule in RULES.values():
        for finding in check_rule(tree):
            key = (finding.rule, finding.path, finding.name)
            if key in allowed:
                used.add(key)
            else:
                findings.append(finding)
    for key in sorted(set(allowed) - used):
        findings.append(Finding("tests/tidy/tidy.py", 1, "stale-excuse", key[2],
                                f"ALLOWED excuses {key[2]} in {key[1]} from {key[0]}, which does not complain; take it out"))
    return sorted(findings)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    findings = check(load(root), ALLOWED)
    for finding in findings:
        print(finding)
    if findings:
        print(f"tidy: {len(findings)} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
