#!/usr/bin/python3
"""Results of `tarn-lab ycsb`, and those that are kept, as a table and as plots, by the scripts in bench/.

    tests/conformance/results.py build/tarn
"""

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
failures = 0


def check(name, good, seen=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} - {name}{'' if good else f': {seen}'}")


def script(name, *arguments):
    return subprocess.run(["/usr/bin/python3", os.path.join(SCRIPTS, name), *arguments], capture_output=True,
                          text=True, check=False)


def bars(svg):
    return [rect for rect in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect") if rect.get("class") == "bar"]


def dots(svg):
    return [dot for dot in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}circle") if dot.get("fill") != "none"]


def check_kept(file, names, marks, member="rate"):
    """Each subject that was measured has as many bars, or dots on lines, as `marks`."""
    path = os.path.join(SCRIPTS, "results", f"{file}.jsonl")
    with open(path, encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    measured = [s for case in cases if case["name"] in names for s in case["subjects"] if member in s]
    plot = script("plot", path)
    found = len(bars(plot.stdout)) + len(dots(plot.stdout)) if plot.returncode == 0 else 0
    check(f"all of {file}.jsonl is in its plot", found == marks * len(measured) > 0,
          f"{found} of {marks * len(measured)} {plot.stderr}")


def measure(program, folder):
    return subprocess.run([program, "ycsb", "--json", "--engines=tarn", "--only=load,c", "--threads=1,2",
                           "--data=200K", "--duration=5ms", "--repeats=2", "--no-direct",
                           f"--path={folder}/stores"], capture_output=True, text=True, check=True).stdout


def with_peer(line):
    """The same with a peer that is ten times slower, and one that could not be measured."""
    case = json.loads(line)
    peer = json.loads(json.dumps(case["subjects"][0]))
    peer["name"] = "a<b"
    for member in ("median", "min", "max"):
        peer["rate"][member] /= 10
    case["subjects"] += [peer, {"name": "gone", "skipped": "not built in"}]
    return json.dumps(case)


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        lines = measure(sys.argv[1], folder).splitlines()
        check("a case for each workload, sync and number of threads", len(lines) == 2 * 2 * 2, lines)
        path = os.path.join(folder, "results.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("make: a line of its own\n" + "\n".join(with_peer(line) for line in lines) + "\n")

        table = script("compare", path)
        check("a table", table.stdout.count("\nycsb ") == 7 and table.stdout.count("skipped: not built in") == 8,
              table.stdout + table.stderr)

        plot = script("plot", path)
        check("a plot", plot.returncode == 0, plot.stderr)
        found = bars(plot.stdout)
        check("a bar for each that was measured", len(found) == 8 * 2, len(found))
        heights = [float(bar.get("height")) for bar in found]
        steps = {round(tarn - peer, 0) for tarn, peer in zip(heights[::2], heights[1::2])}
        check("what is slower has a lower bar", all(step > 0 for step in steps), heights)

        other = os.path.join(folder, "other.jsonl")
        with open(other, "w", encoding="utf-8") as file:
            file.write('{"bench":"task","name":"switch","parameters":{},"subjects":[]}\n')
        empty = script("plot", other)
        check("nothing to plot", empty.returncode == 1 and "no result" in empty.stderr, empty.stderr)
        gone = script("plot", os.path.join(folder, "gone.jsonl"))
        check("no file to plot", gone.returncode == 1 and "Traceback" not in gone.stderr, gone.stderr)
        check("usage", script("plot").returncode == 2)
    check_kept("index", ("hit", "miss", "insert"), 1)
    check_kept("memcache", ("load",), 1)
    for file in ("depot", "puts", "two-cores"):
        check_kept(file, ("get", "put"), 2)  # a rate and a latency
    check_kept("hot", ("zipf", "scans", "short-lives"), 1, "values")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
