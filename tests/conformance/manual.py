#!/usr/bin/python3
"""Do the man pages say what the command says?

    manual.py TARN FOLDER [--write]

FOLDER holds the man pages. --write brings their generated parts up to date.
"""

import os
import re
import subprocess
import sys

import serving
from serving import expect

OPTIONS = re.compile(r'(?<=^\.\\" options begin\n).*?(?=^\.\\" options end$)', re.MULTILINE | re.DOTALL)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def page(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return file.read()


def options_are_those_of_the_table(tarn, folder):
    text = page(folder, "tarn-serve.1")
    generated = output(tarn, "serve", "--man")
    expect(OPTIONS.search(text), "tarn-serve.1 has no place for the options")
    expect(OPTIONS.search(text).group() == generated,
           "tarn-serve.1 is not up to date: run tests/conformance/manual.py TARN docs/man --write")
    for name in re.findall(r"^  (?:-\w, |    )--(\S+?)(?:=|\s|$)", output(tarn, "help", "serve"), re.MULTILINE):
        name = name.replace("[no-]", "")
        expect(name.replace("-", "\\-") in text, f"tarn-serve.1 does not know --{name}")


def verbs_are_those_of_the_command(tarn, folder):
    text = page(folder, "tarn.1")
    verbs = re.findall(r"^  (\w+)  ", output(tarn, "help"), re.MULTILINE)
    expect(len(verbs) >= 11, f"verbs: {verbs}")
    for verb in verbs:
        expect(f"\\fBtarn {verb}\\fR" in text and f"\n\\fB{verb}\\fR" in text, f"tarn.1 does not tell about {verb}")


def calls_are_those_of_the_header(_, folder):
    for name, example in (("depot", "hello.c"), ("fabric", "ring.c"), ("rpc", "calls.c"), ("kv", "anywhere.c"), ("space", "place.c")):
        text = page(folder, f"tarn-{name}.3")
        header = "".join(page(folder, f"../../include/tarn/{file}.h") for file in ([name, "space_sync"] if name == "space" else [name]))
        calls = re.findall(rf"^TARN_API [^(]*?\b(tarn_{name}_\w+)\(", header, re.MULTILINE)
        expect(len(calls) >= 9, f"calls: {calls}")
        for call in calls:
            expect(re.search(rf"^\\fB[\w *]+\b{call}\(", text, re.MULTILINE), f"tarn-{name}.3 has no synopsis of {call}()")
            expect(f".TP\n\\fB{call}\\fR()\n" in text, f"tarn-{name}.3 does not tell about {call}()")
        source = page(folder, f"../examples/{example}").replace("\\", "\\e").replace("-", "\\-")
        expect(f".nf\n{source}.fi\n" in text, f"the example of tarn-{name}.3 is not docs/examples/{example}")


def options_of_ping_are_told(tarn, folder):
    text = page(folder, "tarn-fabric.1")
    names = re.findall(r"^  (?:-\w, |    )--(\S+?)(?:=|\s|$)", output(tarn, "fabric", "ping", "--help"), re.MULTILINE)
    expect(len(names) >= 7, f"options: {names}")
    for name in names + re.findall(r"^  (\w+)  ", output(tarn, "fabric", "--help"), re.MULTILINE):
        expect(name.replace("[no-]", "") in text, f"tarn-fabric.1 does not know {name}")


def verbs_of_space_are_told(tarn, folder):
    text = page(folder, "tarn-space.1")
    verbs = re.findall(r"^  (\w+)  ", output(tarn, "space", "--help"), re.MULTILINE)
    expect(len(verbs) >= 6, f"verbs: {verbs}")
    for verb in verbs:
        expect(f"\\fBtarn space {verb}\\fR" in text and f"\n\\fB{verb}\\fR" in text, f"tarn-space.1 does not tell about {verb}")
        for name in re.findall(r"^  (?:-\w, |    )--(\S+?)(?:=|\s|$)", output(tarn, "space", verb, "--help"), re.MULTILINE):
            expect(name.replace("-", "\\-") in text, f"tarn-space.1 does not know --{name}")


def versions_agree(tarn, folder):
    version = output(tarn, "--version").split()[1]
    for name in ("tarn.1", "tarn-serve.1", "tarn-depot.3", "tarn-fabric.1", "tarn-fabric.3", "tarn-rpc.3", "tarn-kv.3", "tarn-space.1",
                 "tarn-space.3"):
        expect(f'"tarn {version}"' in page(folder, name), f"{name} is not of version {version}")


def pages_fit_a_terminal_of_80_columns(_, folder):
    for name in sorted(os.listdir(folder)):
        text = output("groff", "-man", "-Tutf8", "-Kutf8", "-P-c", "-ww", "-rLL=80n", f"{folder}/{name}")
        for line in re.sub(".\b", "", text).splitlines():
            expect(len(line) <= 80, f"{name} has a line of {len(line)} columns: {line}")


def main():
    tarn, folder = sys.argv[1:3]
    if "--write" in sys.argv:
        text = OPTIONS.sub(lambda _: output(tarn, "serve", "--man"), page(folder, "tarn-serve.1"))
        with open(f"{folder}/tarn-serve.1", "w", encoding="utf-8") as file:
            file.write(text)
    serving.run([options_are_those_of_the_table, verbs_are_those_of_the_command, calls_are_those_of_the_header,
                 options_of_ping_are_told, verbs_of_space_are_told, versions_agree,
                 pages_fit_a_terminal_of_80_columns], tarn, folder)


if __name__ == "__main__":
    main()
