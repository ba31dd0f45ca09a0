#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares three lists of public functions: headers, version map, shared library.

usage: exports.py INCLUDE_DIR MAP_FILE LIBRARY
       exports.py --list INCLUDE_DIR      (the functions that the headers declare)

Advantage: a function that was declared but forgotten in the map, or exported by accident, is named
before a user's linker finds it. Disadvantage: headers are read by a pattern, so every public
declaration has to begin with LEAT_API.
"""
import pathlib
import re
import subprocess
import sys

COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DECLARATION = re.compile(r"\bLEAT_API\b[^;{]*?\b(\w+)\s*\(")


def declared(include_dir):
    names = set()
    for header in sorted(pathlib.Path(include_dir).glob("leat/*.h")):
        text = COMMENTS.sub(" ", header.read_text(encoding="utf-8"))
        text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
        names |= set(DECLARATION.findall(text))
    return names


def mapped(map_file):
    text = COMMENTS.sub(" ", pathlib.Path(map_file).read_text(encoding="utf-8"))
    names = set()
    for body in re.findall(r"global:(.*?)(?:local:|\})", text, re.DOTALL):
        names |= {name.strip() for name in body.split(";") if name.strip()}
    return names


def exported(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    names = set()
    for line in listing.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the version node itself
            names.add(name.split("@")[0])
    return names


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--list":
        print("\n".join(sorted(declared(sys.argv[2]))))
        return 0
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    headers, versions, library = declared(sys.argv[1]), mapped(sys.argv[2]), exported(sys.argv[3])
    findings = [
        ("declared in a header, absent from the version map", headers - versions),
        ("in the version map, declared in no header", versions - headers),
        ("declared in a header, not exported by the library", headers - library),
        ("exported by the library, declared in no header", library - headers),
    ]
    for what, names in findings:
        for name in sorted(names):
            print(f"{name}: {what}")
    if not headers:
        print(f"{sys.argv[1]}: no LEAT_API declaration was found")
        return 1
    print(f"{len(headers)} public functions")
    return 1 if any(names for _, names in findings) else 0


sys.exit(main())
