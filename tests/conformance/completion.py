#!/usr/bin/python3
"""Does bash complete verbs, options and their choices as the program lists them?

    completion.py TARN SOURCE
"""

import os
import subprocess
import sys

import serving
from serving import expect

SCRIPT = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tarn; printf '%s\\n' "${COMPREPLY[@]}"; complete -p tarn >&2"""


def completed(tarn, source, *words):
    path = f"{os.path.dirname(os.path.abspath(tarn))}:{os.environ['PATH']}"
    result = subprocess.run(["bash", "--norc", "-c", SCRIPT, "bash", f"{source}/packaging/tarn.bash", "tarn", *words],
                            capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    expect(result.returncode == 0 and "-F _tarn tarn" in result.stderr and result.stderr.count("\n") == 1, f"{words}: {result}")
    return result.stdout.split()


def verbs_are_completed(tarn, source):
    verbs = completed(tarn, source, "")
    expect({"serve", "get", "bench", "help"} <= set(verbs), f"{verbs}")
    expect(completed(tarn, source, "du") == ["dump"] and completed(tarn, source, "help", "du") == ["dump"], "dump")
    expect(completed(tarn, source, "bench", "memc") == ["memcache"] and completed(tarn, source, "fabric", "p") == ["ping"] and
           completed(tarn, source, "space", "dro") == ["drop"], "verbs of verbs")
    expect(completed(tarn, source, "nothing", "") == [], "a verb that there is not")


def options_are_completed(tarn, source):
    expect(completed(tarn, source, "serve", "--thr") == ["--threads="], "an option with a letter")
    expect(completed(tarn, source, "serve", "--cac") == ["--cache"], "a flag")
    expect(completed(tarn, source, "sim", "--for") == ["--fork"], "a flag that is on")
    expect("--store=" in completed(tarn, source, "bench", "kv", "--"), "an option of a verb's verb")
    expect(len(completed(tarn, source, "serve", "--")) > 40, "all options")


def choices_are_completed(tarn, source):
    expect(completed(tarn, source, "serve", "--mode", "=") == ["auto", "power", "device", "async"], "all choices")
    expect(completed(tarn, source, "load", "file:x", "--mode", "=", "po") == ["power"], "one")
    expect(completed(tarn, source, "serve", "--threads", "=", "1") == [], "no choice")


if __name__ == "__main__":
    serving.run([verbs_are_completed, options_are_completed, choices_are_completed], *sys.argv[1:3])
