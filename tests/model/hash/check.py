#!/usr/bin/python3
"""Is the hash store's protocol right in all interleavings, and is each known-bad variant of it found to be wrong?

    check.py [short] [long] [NAME...]

Runs of hash.pml: `short` ones take a minute or two together, and among them are all broken variants; `long` ones take hours, and up to 12 GiB;
NAME is one of those below, with its variants. Needs spin and a C compiler.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hash.pml")
DEPTH = re.compile(r"depth reached (\d+)")
STATES = re.compile(r"(\S+) states, stored")
WRONG = re.compile(r"pan:\d+: (.*) \(at depth")
MEMORY = re.compile(r"(\S+)\ttotal actual memory")
DEPTHS = {"short": 200000, "long": 20000000} # so much is searched, and a run that needs more fails

# What clients may do: the first one also gets, which tells nothing of the others' states, and value 2 may be its own or another's.
CHANGES = "1 << PUT | 1 << DELETE | 1 << MOVE"
ANYTHING = f"((me == 0) << GET | (me < 2) << PUT_2 | {CHANGES})"
GROWTH = "1 << PUT | 1 << DELETE | 1 << GROW | 1 << CLOSE | 1 << FINISH"
GROWING = f"((me == 0) << GET | (me < 2) << PUT_2 | {GROWTH})"
CANARY = "((me == 0) << GET | (me == 1 && i == 0) << PUT | (me == 2 && i == 0) << PUT_2 | (me == 2 && i == 1) << DELETE)"


class Run(NamedTuple):
    name: str
    part: str
    clients: int
    may: str
    options: str = ""   # of the model
    keys: int = 1
    ranks: int = 2
    bad: str = ""       # variants that must fail, and do so soon
    is_live: bool = False


def alone(operation, part, clients, suffix="", options="", changes=CHANGES, ranks=2):
    """The first client does one operation again and again; the others do everything, until they stop. Gets wait for nobody."""
    return Run(f"alone{suffix}-{operation.lower()}", part, clients, f"(me == 0 -> 1 << {operation} : {changes})", f"ALONE{options}",
               bad="" if operation == "GET" or part == "long" else "NO_RECOVERY", ranks=ranks, is_live=True)


RUNS = (
    Run("one-key", "short", 2, ANYTHING, "OTHERS", bad="NO_LOCK NO_BUMP ONE_COLLECT CLEARED_VERSIONS DUPLICATE_CLEARED VERSION_ALONE"),
    Run("canary", "short", 3, CANARY, "CANARY OPERATIONS=3", bad="NO_LOCK DUPLICATE_CLEARED"),
    Run("lost-outcomes", "short", 2, ANYTHING, "LOSSES", bad="DELETE_SETTLED"),
    Run("two-keys", "short", 2, ANYTHING, keys=2),
    Run("one-lock", "short", 2, ANYTHING, "ONE_LOCK", keys=2),
    Run("growth", "short", 2, GROWING, "GROWTHS=1", ranks=1, bad="END_EARLY NO_VIEW NOT_CLOSED"),
    Run("reuse-put", "short", 2, "(me == 0 -> 1 << GET : 1 << PUT | 1 << PUT_2)", "REUSE", bad="EARLY_REUSE"),
    Run("reuse-delete", "short", 2, "(me == 0 -> 1 << GET | 1 << DELETE : 1 << PUT_2)", "REUSE", bad="STALE_LOOK"),
    *(alone(operation, "short", 2) for operation in ("GET", "PUT", "DELETE", "MOVE")),
    *(alone(operation, "short", 2, "-growth", " GROWTHS=1", GROWTH, ranks=1) for operation in ("GET", "PUT", "DELETE", "CLOSE")),
    *(alone(operation, "long", 2, "-growth-two-ranks", " GROWTHS=1", GROWTH) for operation in ("GET", "PUT", "DELETE", "CLOSE")),
    *(alone(operation, "long", 3, "-three-clients") for operation in ("GET", "PUT", "DELETE", "MOVE")),
    Run("three-clients", "long", 3, ANYTHING),
    Run("three-clients-others", "long", 3, ANYTHING, "OTHERS"),
    Run("three-clients-lost-outcomes", "long", 3, ANYTHING, "LOSSES"),
    Run("three-ranks-others", "long", 2, ANYTHING, "OTHERS", ranks=3),
    Run("two-keys-others", "long", 2, ANYTHING, "OTHERS", keys=2),
    Run("growth-others", "long", 2, GROWING, "GROWTHS=1 OTHERS", ranks=1),
    Run("growth-twice", "long", 2, GROWING, "GROWTHS=2", ranks=1),
    Run("growth-two-ranks", "long", 2, f"({GROWING} | 1 << MOVE)", "GROWTHS=1"),
    Run("reuse-move", "long", 2, "(me == 0 -> 1 << GET | 1 << DELETE : 1 << PUT_2 | 1 << MOVE)", "REUSE", bad="ONE_LOOK"),
)


def configure(run, options):
    defines = {"CLIENTS": run.clients, "KEYS": run.keys, "RANKS": run.ranks, "MAY(me, i)": run.may}
    for option in options:
        name, _, value = option.partition("=")
        defines[name] = value or 1
    return "".join(f"#define {name} {value}\n" for name, value in defines.items()) + f'#include "{MODEL}"\n'


def explore(run, *variants):
    """@return what was seen, in words; and the assertion that fails, or the cycle in which nothing is reached; or None"""
    with tempfile.TemporaryDirectory() as folder:
        def call(*command):
            return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        with open(os.path.join(folder, "run.pml"), "w", encoding="utf-8") as file:
            file.write(configure(run, [*run.options.split(), *variants]))
        call("spin", "-a", "run.pml")
        call("cc", "-O1" if variants else "-O2", "-w", "-DNOREDUCE", "-DMEMLIM=12288", "-DCOLLAPSE", *([] if run.is_live else ["-DSAFETY"]),
             "-o", "pan", "pan.c")
        output = call("./pan", "-E", f"-m{DEPTHS[run.part]}", *(["-a", "-N", "ends"] if run.is_live else []))
    wrong = WRONG.search(output)
    if STATES.search(output) is None or "too small" in output or (wrong is None and "Search not completed" in output):
        raise RuntimeError(output)
    states = int(float(STATES.search(output).group(1)))
    words = f"{states} states, depth {DEPTH.search(output).group(1)}, {float(MEMORY.search(output).group(1)):.0f} MiB"
    return words, wrong and wrong.group(1)


def check(run, *variants):
    start = time.monotonic()
    words, wrong = explore(run, *variants)
    is_good = (wrong is not None) == bool(variants)
    print(f"{'ok' if is_good else 'not ok'} - {run.name}{''.join(' ' + variant for variant in variants)}: {wrong or 'nothing wrong'}, {words}, "
          f"{time.monotonic() - start:.0f} s", flush=True)
    return is_good


def main(*names):
    good = []
    for run in RUNS:
        if run.part in names or run.name in names:
            good.append(check(run))
        if "short" in names or run.name in names: # a broken one is found soon
            good += [check(run, variant) for variant in run.bad.split()]
    if not good:
        sys.exit(f"{__doc__}\nRuns: {' '.join(run.name for run in RUNS)}")
    return 0 if all(good) else 1


sys.exit(main(*sys.argv[1:]))
