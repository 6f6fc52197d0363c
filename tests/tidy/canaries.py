#!/usr/bin/python3
"""Break every rule of tidy.py on purpose, and expect to be told; and be told of nothing else.

A canary is a small healthy repository with one thing wrong. In its text, `@` at the end of a line
marks where the finding must be; `@` alone in the place of the text takes the file away, and the
finding must be on the file's first line, or on the first line of the file that is named beside it.
"""

import sys

import tidy

HEALTHY = {
    "src/layers": "# comment\nlow:\ntask: low\ntop: low task\n",
    "src/low/README.md": "run.c, thing.c, thing.h, thing_internal.h and part/piece.c, util.h, thing_format.h\n",
    "src/low/meson.build": "sources = files('thing.c', 'run.c', 'part/run.c', 'deep/run.c', 'part/piece.c')\nunit_tests = ['thing']\n",
    "src/low/thing.c": r'''/* strcpy(a, b) in a comment; time(0) too */
#include "low/thing.h"
#include "low/thing_internal.h"
#include <stdlib.h>
#include <tarn/tarn.h>

static const char *const names[] = {"strcpy(a)", "it's"};
static const struct low_thing empty = (struct low_thing){0};
static int (*const table[])(void) = {0};
_Static_assert(sizeof(names) > 0, "names");

struct private {
    int (*free)(void *what);
    int member;
};

static int helper(struct private *own)
{
    static const int bits[] = {1, 2};
    int local = bits[0];
    char quote = '"';

    own->free(own);
    return local + quote + empty.member;
}

int low_thing_add(struct low_thing *thing)
{
    if (thing) {
        return helper((struct private *)thing);
    }
    return table[0]();
}
''',
    "src/low/thing.h": '''#ifndef LOW_THING_H
#define LOW_THING_H

#include "low/util.h"

#define low_must_check __attribute__((warn_unused_result))
#define low_printf_like(a, b) __attribute__((format(printf, a, b)))
#define LOW_MAKE(type) \\
    static inline type low_##type(type a) \\
    { \\
        return a; \\
    }

LOW_MAKE(int)

typedef void low_function(void *arg);
typedef int (*low_callback)(int (*nested)(int));

struct low_other;

struct low_thing {
    low_function *function;
    int (*member)(int);
};

/**
 * Add.
 */
low_must_check int low_thing_add(struct low_thing *thing);

/** Print. */
low_printf_like(1, 2)
void low_thing_print(const char *format, ...);

/** With a body. */
static inline struct low_thing *low_thing_self(struct low_thing *thing)
{
    return thing;
}

#endif
''',
    "src/low/testing.h": '#include "low/thing_internal.h"\n\nstatic int counter;\n',
    "src/low/util.h": "/** Nothing. */\nvoid low_util(void) __attribute__((cold));\n",
    "src/low/thing_internal.h": "struct low_inside {\n    int a;\n};\n",
    "src/low/thing_format.h": '''#include <stdint.h>

struct low_disk {
    uint64_t size;
} __attribute__((packed));
_Static_assert(sizeof(struct low_disk) == 8, "on the drive");
''',
    "src/low/run.c": "static int run(void)\n{\n    return 0;\n}\n",
    "src/low/part/run.c": "static int run(void)\n{\n    return 1;\n}\n",
    "src/low/deep/run.c": "static int run(void)\n{\n    return 2;\n}\n",
    "src/low/part/piece.c": '#include "low/thing_internal.h"\n#include <stdlib.h>\n\nint piece(void)\n{\n    return 0;\n}\n',
    "src/low/thing_test.c": '''#include "low/thing_internal.h"
#include <stdlib.h>

static int counter;

int main(void)
{
    free(malloc(1));
    return counter;
}
''',
    "src/task/README.md": "# task\n",
    "src/top/README.md": "work.c\n",
    "src/top/meson.build": "sources = files('work.c')\n",
    "src/top/work.c": '/* Work. */\n#include "low/thing.h"\n#include <sys/time.h>\n\nint work(void)\n{\n    return 0;\n}\n',
    "include/tarn/tarn.h": '''#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/more.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_API __attribute__((visibility("default")))
#define TARN_MAX 3

enum tarn_mode {
    TARN_MODE_ONE, /**< one */
    TARN_MODE_TWO = TARN_MAX,
};

struct tarn_node;

/** The version. */
TARN_API const char *tarn_version(struct tarn_node *node);

#ifdef __cplusplus
}
#endif

#endif
''',
    "include/tarn/more.h": "typedef void tarn_function(void *arg);\n",
    "tests/fuzz/meson.build": "fuzz_targets = ['parse']\n",
    "tests/fuzz/parse.c": "int main(void)\n{\n    return 0;\n}\n",
    "Makefile": "all:\n\ttrue\n",
}

# (rule, path, what is put there instead): see above.
TO_DO = "TO" + "DO"
CANARIES = [
    ("layers", "src/layers", "low:\ntask: low top@\ntop: low task\n"),
    ("layers", "src/layers", "low:\ntask: low task@\ntop: low task\n"),
    ("layers", "src/layers", "low:\ntask: low\ntop: low task\ngone: low@\n"),
    ("layers", "src/layers", "low:@\ntop: low\n"),
    ("layer-readme", "src/top/README.md", "@"),
    ("layer-readme", "src/top/README.md", "# top, which has no line for its file@\n"),
    ("include", "src/low/part/piece.c", '#include "top/work.h"@\n'),
    ("include", "src/low/part/piece.c", '#  include "top/deep/work.h" // why@\n'),
    ("include", "src/low/part/piece.c", '#include "thing.h"@\n'),
    ("include", "src/low/part/piece.c", '#include "liburing.h"@\n'),
    ("include", "src/low/part/piece.c", '#include "../low/thing.h"@\n'),
    ("include", "src/low/part/piece.c", "#include <low/thing.h>@\n"),
    ("include", "src/low/thing_test.c", '#include "top/work.h"@\n'),
    ("include", "src/top/work.c", '/* Work. */\n#include "low/thing_internal.h"@\n'),
    ("include", "src/top/work.c", '/* Work. */\n#include "low/part/part_internal.h"@\n'),
    ("include", "tests/fuzz/parse.c", '#include "low/thing_internal.h"@\n'),
    ("include", "include/tarn/more.h", '#include "low/thing.h"@\n'),
    *(("banned-call", "src/low/part/piece.c", f"void f(void)\n{{\n    x = {name} (a);@\n}}\n") for name in tidy.ANYWHERE),
    *(("banned-call", "src/top/work.c", f"/* Work. */\nvoid f(void)\n{{\n    return {name}(a);@\n}}\n") for name in tidy.IN_LAYERS),
    ("banned-call", "src/low/part/piece.c", "#define MAKE(x) \\\n    (1 + \\\n     atoi(x))@\n"),
    ("banned-call", "src/low/part/piece.c", "int f(void)\n{\n    return getpid();@\n}\n"),
    ("banned-call", "tests/fuzz/parse.c", 'void f(void)\n{\n    /* a " */ strcat(a, b);@\n}\n'),
    ("mutable-global", "src/low/part/piece.c", "static int count;@\n"),
    ("mutable-global", "src/low/part/piece.c", "int count = 1;@\n"),
    ("mutable-global", "src/low/part/piece.c", "extern int count;@\n"),
    ("mutable-global", "src/low/part/piece.c", 'static const char *names[] = {"a"};@\n'),
    ("mutable-global", "src/low/part/piece.c", "static struct {@\n    int a;\n} state;\n"),
    ("mutable-global", "src/low/part/piece.c", "static struct low_thing things[sizeof(int)];@\n"),
    ("mutable-global", "src/low/part/piece.c", "static int (*hook)(int);@\n"),
    ("mutable-global", "src/low/part/piece.c", "static _Atomic(int) count;@\n"),
    ("mutable-global", "src/low/part/piece.c", "static _Thread_local struct low_thing *self;@\n"),
    ("mutable-global", "src/low/part/piece.c", "static _Alignas(64) char memory[64] __attribute__((used));@\n"),
    ("mutable-global", "src/low/part/piece.c", "int f(int a)\n{\n    if (a) {\n        static int calls = 3;@\n    }\n    return a;\n}\n"),
    ("mutable-global", "src/low/util.h", "static int count;@\n"),
    ("docstring", "src/low/util.h", "void low_util(void);@\n"),
    ("docstring", "src/low/util.h", "/* no docstring */\nvoid low_util(void);@\n"),
    ("docstring", "src/low/util.h", "/** Too far away. */\n\nvoid low_util(void);@\n"),
    ("docstring", "src/low/util.h", "/** One. */\nint low_one(int a);\nint low_two(int a);@\n"),
    ("docstring", "src/low/util.h", "LOW_MAKE(long)\nstatic inline int low_one(int a)@\n{\n    return a;\n}\n"),
    ("docstring", "src/low/util.h", "low_must_check@\nint low_one(int a);\n"),
    ("docstring", "src/low/util.h", "struct low_table {\n    int (*one)(int a);\n    int (*two)(int a);\n};\n"
     "/** Members of struct low_table, which says more. */\nint low_one(int a);\nint low_two(int a,\n            int b);\nint low_three(int a);@\n"),
    ("docstring", "src/low/util.h", "struct low_table {\n    int (*one)(int a);\n    int (*two)(int a);\n};\n"
     "/** Members of struct low_table, which says more. */\nint low_one(int a);\n\nint low_two(int a);@\n"),
    ("docstring", "include/tarn/more.h", "TARN_API int tarn_more(int a);@\n"),
    ("export-prefix", "include/tarn/more.h", "/** More. */\nint more(void);@\n"),
    ("export-prefix", "include/tarn/more.h", "#define MORE 1@\n"),
    ("export-prefix", "include/tarn/more.h", "struct more {@\n    int a;\n};\n"),
    ("export-prefix", "include/tarn/more.h", "struct node;@\n"),
    ("export-prefix", "include/tarn/more.h", "typedef int (*callback)(int);@\n"),
    ("export-prefix", "include/tarn/more.h", "enum tarn_more {\n    TARN_ONE,\n    TWO = 2,@\n};\n"),
    ("export-prefix", "include/tarn/more.h", "enum {\n    ONE@\n};\n"),
    ("format-assert", "src/low/thing_format.h", "struct low_disk {@\n    int a;\n};\n"),
    ("format-assert", "src/low/util.h", "struct low_wire_format {@\n    int a;\n};\n"),
    ("format-assert", "src/low/util.h", "/* format: a record */\nstruct low_wire {@\n    int a;\n};\n"),
    ("format-assert", "src/low/part/piece.c", "/* format: v1 */\nstruct w {@\n    int a;\n};\n_Static_assert(sizeof(struct v) == 4, \"w\");\n"),
    *(("riddle", "src/top/work.c", f"/* Work. */\n/*\n * It ends, and\n * {words} goes@\n * home. */\n")
      for words in ("whoever", "those of who", "who", "so many", "in vain", "of the dead")),
    ("riddle", "src/top/README.md", "work.c, for\nwho asks.@\n"),
    ("lone-verb", "src/top/work.c", "/* Work. */\nstatic int run(void)@\n{\n    return 0;\n}\n"),
    ("first-sentence", "src/top/work.c", "int work(void)@\n{\n    return 0;\n}\n"),
    ("first-sentence", "src/top/work.c", "\n/* Work. */\n"),
    ("first-sentence", "src/top/work.c", "/* work */@\n"),
    ("dead-test", "src/low/lost_test.c", "int main(void)@\n{\n    return 0;\n}\n"),
    ("dead-test", "src/low/meson.build", "sources = files('thing.c', 'run.c', 'part/run.c', 'deep/run.c', 'part/piece.c')\nunit_tests = [] # 'thing'\n"),
    ("dead-file", "src/low/meson.build", "sources = files('thing.c', 'run.c', 'part/run.c', 'deep/run.c', 'piece.c')\nunit_tests = ['thing']\n"),
    ("dead-file", "tests/fuzz/meson.build", "fuzz_targets = ['other']\n"),
    ("file-length", "src/low/part/piece.c", "\n" * tidy.LINES_MAX + "@\n"),
    ("file-length", "tools/script", "\n" * tidy.LINES_MAX + "@\n"),
    ("leftover", "src/low/part/piece.c", f"/* {TO_DO}: something */@\n"),
    ("leftover", "README.md", "It works, " + "FIX" + "ME" + " soon.@\n"),
    ("leftover", "tools/script", "# " + "XX" + "X@\n"),
    ("whitespace", "src/low/part/piece.c", "int f(void)\n{\n\treturn 0;@\n}\n"),
    ("whitespace", "README.md", "words @\nwords\n"),
    ("whitespace", "README.md", "words\r@\n"),
    ("whitespace", "README.md", "words@"),
]
# Where the finding is in another file than the one that is changed.
ELSEWHERE = {
    ("dead-test", "src/low/meson.build"): ("src/low/thing_test.c", 1),
    ("first-sentence", "src/top/work.c"): ("src/top/work.c", 1),
    ("dead-file", "src/low/meson.build"): ("src/low/part/piece.c", 1),
    ("dead-file", "tests/fuzz/meson.build"): ("tests/fuzz/parse.c", 1),
}


def plant(path, text):
    """A repository with the canary in it, and the places where a finding is expected."""
    files = dict(HEALTHY)
    if text == "@":
        del files[path]
        return files, [(path, 1)]
    lines = text.split("\n")
    places = [(path, number) for number, line in enumerate(lines, 1) if line.endswith("@")]
    files[path] = "\n".join(line[:-1] if line.endswith("@") else line for line in lines)
    return files, places


def failures():
    tidy.PROSE_EXEMPT = ("low",)
    healthy = tidy.check(HEALTHY, {})
    if healthy:
        yield "the healthy repository: " + "; ".join(map(str, healthy))

    for rule, path, text in CANARIES:
        files, places = plant(path, text)
        places = places or [ELSEWHERE[rule, path]]
        expected = sorted((place, line, rule) for place, line in places)
        findings = tidy.check(files, {})
        if [(f.path, f.line, f.rule) for f in findings] != expected:
            yield f"{rule}: {text!r} in {path}: expected {expected}, found " + ("; ".join(map(str, findings)) or "nothing")
    for rule in set(tidy.RULES) - {rule for rule, _, _ in CANARIES}:
        yield f"{rule}: no canary sings for this rule"

    files, _ = plant("src/low/part/piece.c", "static int count;\n")
    excuse = {("mutable-global", "src/low/part/piece.c", "count"): "a reason"}
    if tidy.check(files, excuse):
        yield "an excuse in ALLOWED is not heard"
    if [f.rule for f in tidy.check(HEALTHY, excuse)] != ["stale-excuse"]:
        yield "an excuse in ALLOWED that nothing needs is not reported"


def main():
    count = 0
    for count, failure in enumerate(failures(), 1):
        print("canaries:", failure)
    print(f"canaries: {len(CANARIES)} birds, {count} failures")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
