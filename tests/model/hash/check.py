#!/usr/bin/python3
"""Is the hash store's protocol right in all interleavings, and is each known-bad variant of it found to be wrong?

    check.py [CLIENTS OPERATIONS [NAME]]

Of hash.pml, with so many clients (2) that do so many operations each (2). Needs spin and a C compiler.
"""

import os
import re
import subprocess
import sys
import tempfile

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hash.pml")
BAD = ("NO_LOCK", "NO_BUMP", "ONE_COLLECT", "CLEARED_VERSIONS", "DUPLICATE_CLEARED", "EARLY_REUSE")


def explore(clients, operations, *options):
    """@return how many states there are, and the assertion that fails in one of them, or None"""
    with tempfile.TemporaryDirectory() as folder:
        def run(*command):
            return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        run("spin", f"-DCLIENTS={clients}", f"-DOPERATIONS={operations}", *(f"-D{option}" for option in options), "-a", MODEL)
        run("cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=16000", "-o", "pan", "pan.c")
        output = run("./pan", "-E", "-m1000000")
    wrong = re.search(r"pan:\d+: (.*) \(at depth", output)
    states = re.search(r"(\S+) states, stored", output)
    if states is None or "max search depth too small" in output or "out of memory" in output or "errors:" not in output:
        raise RuntimeError(output)
    return int(float(states.group(1))), wrong and wrong.group(1)


def main(clients=2, operations=2, name=None):
    failed = 0
    for variant in (None, *BAD):
        if name not in (None, variant or "good"):
            continue
        size = (2, 2) if variant else (int(clients), int(operations))
        states, wrong = explore(*size, *([variant] if variant else []))
        is_good = (wrong is not None) == (variant is not None)
        failed += not is_good
        print(f"{'ok' if is_good else 'not ok'} - {variant or 'the protocol'}, {size[0]} clients, {size[1]} operations: "
              f"{states} states, {wrong or 'nothing wrong'}", flush=True)
    return failed


sys.exit(min(main(*sys.argv[1:]), 1))
