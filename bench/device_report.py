# SPDX-License-Identifier: Apache-2.0
"""Merges reports of `leat bench halo --device cuda --json` and says what they come to.

usage: device_report.py MERGED.json REPORT.md REPORT.json...

Tables of medians, a size a column, and the targets with what was reached. Advantage: figures are
read from the reports, never typed. Disadvantage: spreads are in the JSON only, but for the targets.
"""
import json
import pathlib
import sys


def load(path):
    """Entries with their report's plan and device; none of a file that is cut off."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except ValueError as wrong:
        print(f"{path}: {wrong}", file=sys.stderr)
        return None, []
    context = {"file": pathlib.Path(path).stem, **content["context"],
               **{key: content[key] for key in ("device", "plan", "ranks", "incomplete")}}
    return context, [{"plan": content["plan"], **entry} for entry in content["benchmarks"]]


def way_of(entry):
    if "peer" in entry:
        return entry["peer"]
    name = f"leat {entry['mode']}"
    return f"{name}, {entry['kind']}" if entry["plan"] != "pulse" else name


def tables(entries):
    """{(plan, group, elements, direction): {way: {atoms: entry}}}, in the order measured."""
    found = {}
    for entry in entries:
        key = tuple(entry[part] for part in ("plan", "group", "elements", "direction"))
        found.setdefault(key, {}).setdefault(way_of(entry), {})[entry["atoms"]] = entry
    return found


def print_table(lines, key, ways):
    sizes = sorted({atoms for row in ways.values() for atoms in row})
    ours = any("mode" in entry for row in ways.values() for entry in row.values())
    lines += ["", "### " + ", ".join(key), "",
              "| way | " + " | ".join(f"{atoms:,}" for atoms in sizes) +
              (" | launches, waits |" if ours else " |"),
              "|---" * (len(sizes) + 1 + ours) + "|"]
    best = {atoms: min(row[atoms]["real_time"] for row in ways.values() if atoms in row)
            for atoms in sizes}
    for way, row in ways.items():
        cells = []
        for atoms in sizes:
            time = row[atoms]["real_time"] if atoms in row else None
            text = "-" if time is None else f"{time:.2f}" if time < 100 else f"{time:.0f}"
            cells.append(f"**{text}**" if time == best[atoms] else text)
        counts = [f"{e['launches']:.2f}, {e['blocking_waits']:.2f}" for e in row.values()
                  if "launches" in e][:1] or [""]
        lines.append(f"| {way} | " + " | ".join(cells + (counts if ours else [])) + " |")


class Targets:
    """Lines "met" or "MISSED", each with its figures."""

    def __init__(self, found):
        self.found, self.lines = found, []

    def entry(self, key, way, atoms):
        return self.found.get(key, {}).get(way, {}).get(atoms)

    def say(self, met, text):
        self.lines.append(f"- {'met' if met else 'MISSED'}: {text}")

    def faster_than_streams(self):
        key, atoms = ("pulse", "exchange", "float3", "forward"), 4000
        fused = self.entry(key, "leat fused", atoms)
        peers = [self.entry(key, way, atoms) for way in ("nccl", "nvshmem")]
        peers = [peer for peer in peers if peer]
        if not fused or not peers:
            self.lines.append("- not measured: fused beside NCCL and NVSHMEM on stream")
            return
        best = min(peers, key=lambda peer: peer["real_time"])
        ratio = best["real_time"] / fused["real_time"]
        self.say(ratio >= 2.3, f"fused, 4,000 atoms, {ratio:.2f} times as fast as the best on "
                               f"stream ({best['peer']}); wanted 2.3")

    def no_slower_than_any_peer(self):
        for group in ("exchange", "graph"):
            ways = self.found.get(("pulse", group, "float3", "forward"), {})
            for atoms, fused in sorted(ways.get("leat fused", {}).items()):
                peers = [row[atoms] for row in ways.values()
                         if atoms in row and "peer" in row[atoms] and
                         row[atoms]["peer"] != "nvshmem-resident"]
                if not peers:
                    continue
                best = min(peers, key=lambda peer: peer["real_time"])
                # Beyond the spread: even its fastest slice is slower than the peer's slowest.
                met = fused["real_time"] <= best["real_time"] or fused["min"] <= best["max"]
                self.say(met, f"fused, {group}, {atoms:,} atoms: {fused['real_time']:.2f} "
                              f"({fused['min']:.2f}-{fused['max']:.2f}) us, best peer "
                              f"{best['peer']} {best['real_time']:.2f} "
                              f"({best['min']:.2f}-{best['max']:.2f})")

    def resident_step(self):
        for group, what in (("step", "with every ghost read"), ("exchange", "without reading")):
            key = ("pulse", group, "float3", "forward")
            for atoms, most in ((4000, 5.1), (256000, 17.5)):
                mine = self.entry(key, "leat resident", atoms)
                peer = self.entry(key, "nvshmem-resident", atoms)
                if not mine:
                    self.lines.append(f"- not measured: resident, {atoms:,} atoms, {what}")
                    continue
                beside = f", nvshmem-resident {peer['real_time']:.2f}" if peer else ""
                self.say(mine["real_time"] <= most, f"resident, {atoms:,} atoms, {what}: "
                         f"{mine['real_time']:.2f} us; at most {most}{beside}")

    def fused_beside_host(self):
        for atoms, row in sorted(self.found.get(("3d", "exchange", "float3", "forward"), {})
                                 .get("leat fused, forwarded", {}).items()):
            ratio = row["ratio_to_host"]
            if ratio:
                self.say(ratio >= 3, f"3d, forwarded, {atoms:,} atoms: fused {ratio:.2f} times as "
                                     "fast as host; wanted 3")

    def all(self):
        self.faster_than_streams()
        self.no_slower_than_any_peer()
        self.resident_step()
        self.fused_beside_host()
        return self.lines


def main(merged, report, *paths):
    contexts, entries = [], []
    for path in paths:
        context, some = load(path)
        contexts += [context] if context else []
        entries += some
    pathlib.Path(merged).write_text(json.dumps(
        {"schema": "leat.bench/1", "contexts": contexts, "benchmarks": entries}, indent=1) + "\n",
        encoding="utf-8")
    found = tables(entries)
    lines = ["# Halo exchange on GPUs", "", "Medians, us; the fastest of a size is bold.", ""]
    lines += Targets(found).all()
    lines += [f"- incomplete: {context['file']}" for context in contexts if context["incomplete"]]
    for key, ways in found.items():
        print_table(lines, key, ways)
    text = "\n".join(lines) + "\n"
    pathlib.Path(report).write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
