#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the tests of one ctest run and lists the skipped ones with their reasons.

usage: summary.py JUNIT_FILE [--may-skip FILE] [--append FILE] [--failures FILE]

Each cmocka test counts one, as does each ctest entry that is not a cmocka program. ctest alone
would not do: a cmocka program returns 0 although some of its tests called skip().

--may-skip FILE  tests that may be skipped under CI=true, one regular expression a line; any other
                 skipped test fails the run there
--append FILE    adds the line "passed failed skipped" to FILE, for a total over several runs
--failures FILE  adds what failed, each with the end of what its ctest entry printed, to FILE
"""
import argparse
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

FAILURE_LINES = 40

RUN = re.compile(r"^\[ RUN      \] (\S+)")
END = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (\S+)$")


class Result:
    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []  # (name, reason)
        self.output = {}  # of entries with a failure: what they printed, in lines


def last_line(lines):
    """The last line with something on it, which is where a test says why."""
    for line in reversed(lines):
        if line.strip():
            return line.strip()
    return "no reason was given"


def count_cmocka(entry, lines, result):
    """Counts the tests of one cmocka program; returns how many it reported as failed."""
    failed = 0
    running, said = None, []
    for line in lines:
        start, end = RUN.match(line), END.match(line)
        if start:
            running, said = start.group(1), []
        elif end and end.group(2) == running:
            name = f"{entry}/{running}"
            if end.group(1) == "OK":
                result.passed += 1
            elif end.group(1) == "SKIPPED":
                result.skipped.append((name, last_line(said)))
            else:
                result.failed.append(name)
                failed += 1
            running = None
        else:
            said.append(line)
    if running:
        result.failed.append(f"{entry}/{running} (did not end)")
        failed += 1
    return failed


def count_entry(case, result):
    entry = case.get("name")
    lines = (case.findtext("system-out") or "").splitlines()
    failed_before = len(result.failed)
    count_entry_lines(case, entry, lines, result)
    if len(result.failed) > failed_before:
        result.output[entry] = lines


def count_entry_lines(case, entry, lines, result):
    cause = case.find("failure")
    skip = case.find("skipped")
    if case.get("status") == "run" and any(RUN.match(line) for line in lines):
        count_cmocka(entry, lines, result)
    elif case.get("status") == "run":
        result.passed += 1
    elif skip is not None and "SKIP_RETURN_CODE" in skip.get("message", ""):
        result.skipped.append((entry, last_line(lines)))
    else:
        failed = count_cmocka(entry, lines, result)
        message = (cause if cause is not None else skip)
        message = message.get("message", "") if message is not None else ""
        # A program that dies or reports a leak after its tests has failed without naming a test.
        if not failed:
            result.failed.append(f"{entry} ({message or 'failed outside its tests'})")


def may_skip_patterns(path):
    if not path:
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].strip() for line in file]
    return [re.compile(line) for line in lines if line]


def write_failures(path, result, not_run):
    with open(path, "a", encoding="utf-8") as file:
        for name in result.failed:
            file.write(f"FAILED  {name}\n")
        for name in not_run:
            file.write(f"FAILED  {name} (skipped, but it has to run under CI=true)\n")
        for entry, lines in result.output.items():
            file.write(f"---- the end of what {entry} printed\n")
            file.writelines(line + "\n" for line in lines[-FAILURE_LINES:])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("junit_file")
    parser.add_argument("--may-skip")
    parser.add_argument("--append")
    parser.add_argument("--failures")
    arguments = parser.parse_args()

    result = Result()
    for case in ElementTree.parse(arguments.junit_file).getroot().iter("testcase"):
        count_entry(case, result)

    allowed = may_skip_patterns(arguments.may_skip)
    status = 1 if result.failed or not result.passed else 0
    not_run = []
    for name in result.failed:
        print(f"FAILED  {name}")
    for name, reason in result.skipped:
        print(f"skipped {name}: {reason}")
        if os.environ.get("CI") == "true" and not any(p.search(name) for p in allowed):
            print(f"        {name} has to run under CI=true ({arguments.may_skip} has no line for it)")
            not_run.append(name)
            status = 1
    counts = result.passed, len(result.failed), len(result.skipped)
    if arguments.append:
        with open(arguments.append, "a", encoding="utf-8") as file:
            file.write("{} {} {}\n".format(*counts))
    if arguments.failures:
        write_failures(arguments.failures, result, not_run)
    print("Each cmocka test counts one, any other ctest entry counts one.")
    print("{} passed, {} failed, {} skipped".format(*counts))
    return status


sys.exit(main())
