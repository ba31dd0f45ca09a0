# SPDX-License-Identifier: Apache-2.0
"""What tests of `leat md` share: runs of the command, and a runner that reports like cmocka.

Advantage: each test function counts one in the summary, like those in C. Disadvantage: only the few
words of that format which the summary reads.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import compare  # noqa: E402

DATA = HERE.parent / "data"


class Skip(Exception):
    pass


def leat_bin():
    path = os.environ.get("LEAT_BIN")
    if not path:
        raise Skip("LEAT_BIN is not set: it names the command to test")
    return path


def shared_case(name, settings="rf.mdp"):
    """(gro, top, mdp) of a case beside the source tree."""
    shared = os.environ.get("LEAT_SHARED")
    if not shared or not os.path.isdir(os.path.join(shared, "cases/md")):
        raise Skip("LEAT_SHARED does not name the directory with cases/md")
    base = pathlib.Path(shared) / "cases/md"
    return base / f"{name}.gro", base / f"{name}.top", base / settings


def water(settings="water.mdp"):
    """The shipped box of 1,000 waters."""
    return DATA / "water.gro", DATA / "water.top", DATA / settings


class Run:
    """A finished run: status, stdout, stderr, and with --json the report."""

    def __init__(self, directory, files, *options, env=None, timeout=100):
        self.forces_path = str(pathlib.Path(directory) / "forces.txt")
        gro, top, mdp = (str(path) for path in files)
        command = [leat_bin(), "md", "--gro", gro, "--top", top, "--mdp", mdp, *map(str, options)]
        self.command = " ".join(command)
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False,
                              cwd=directory, env={**os.environ, **(env or {})})
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.json = None

    def report(self):
        assert self.status == 0, f"status {self.status} of {self.command}\n{self.err}"
        self.json = self.json or json.loads(self.out)
        return self.json


def run(directory, files, *options, **keywords):
    """A run that has to succeed, with its report and forces."""
    done = Run(directory, files, "--json", "--forces", "forces.txt", *options, **keywords)
    done.report()
    done.forces = compare.read_forces(done.forces_path)
    return done


def assert_agrees(done, tolerance, energy, forces):
    """Energies and forces by the cases' rule of tolerance."""
    failures, _ = compare.compare_energies(tolerance, done.report(), energy)
    deviation = compare.force_deviation(done.forces, forces)
    if not deviation <= tolerance:
        failures.append(f"forces: RMS deviation {deviation:.3e}, allowed {tolerance:.1e}")
    assert not failures, done.command + "\n" + "\n".join(failures)


def step_difference(report, peer):
    """Largest difference to a step of GROMACS', and of what. Energies count relative to the potential
    energy's gross size."""
    energy, wanted = report["energy"], {term: peer.get(term, 0.0) for term in compare.BONDED}
    scale = sum(map(abs, wanted.values())) + abs(peer["lj"]) + report["coulomb_gross"] + abs(
        peer["kinetic"])
    wanted.update({term: peer[term] for term in ("lj", "coulomb", "potential", "kinetic", "total")})
    found = {term: abs(energy.get(term, 0.0) - value) / scale for term, value in wanted.items()}
    if "conserved" in peer:
        found["conserved"] = abs(energy["conserved"] - peer["conserved"]) / scale
    found["temperature"] = abs(report["temperature_k"] - peer["temperature"]) / peer["temperature"]
    # Pressure is the difference of two large numbers, each a kinetic energy in size.
    found["pressure"] = abs(report["pressure_bar"] - peer["pressure"]) / (
        report["temperature_k"] * 0.0831446 * report["atoms"])
    return max((value, term) for term, value in found.items())


def assert_reference(done, name, tolerance):
    """Against NAME.ref.json and NAME.forces.txt.gz."""
    base = shared_case(name)[0].parent
    with open(base / f"{name}.ref.json", encoding="utf-8") as file:
        content = json.load(file)
    energy = {ours: content[theirs] for ours, theirs in compare.TERMS.items()}
    assert_agrees(done, tolerance, energy, compare.read_forces(str(base / f"{name}.forces.txt.gz")))


def with_settings(source, target, **settings):
    """Copies an .mdp with other values; keys with '_' for '-'."""
    changed = {key.replace("_", "-"): value for key, value in settings.items()}
    lines = []
    for line in pathlib.Path(source).read_text(encoding="utf-8").splitlines():
        key = line.split("=")[0].strip()
        if key not in changed:
            lines.append(line)
    lines += [f"{key} = {value}" for key, value in changed.items()]
    pathlib.Path(target).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


def need_program(name):
    if not shutil.which(name):
        raise Skip(f"{name} is not installed")


def main(namespace):
    """Runs every test_* of a module, or those named on the command line, each in its own directory."""
    chosen = sys.argv[1:]
    tests = [(name, test) for name, test in namespace.items()
             if name.startswith("test_") and (not chosen or name in chosen)]
    if len(tests) < len(chosen):
        sys.exit(f"no such test among {', '.join(chosen)}")
    failed = skipped = 0
    for name, test in tests:
        print(f"[ RUN      ] {name}", flush=True)
        verdict = "OK"
        with tempfile.TemporaryDirectory(prefix="leat-") as directory:
            try:
                test(directory)
            except Skip as reason:
                print(reason)
                verdict = "SKIPPED"
            except (Exception, subprocess.TimeoutExpired):  # a test's fault is a failed test
                traceback.print_exc(file=sys.stdout)
                verdict = "FAILED"
        failed += verdict == "FAILED"
        skipped += verdict == "SKIPPED"
        print(f"[ {verdict:>8} ] {name}", flush=True)
    if failed:
        return 1
    return 77 if skipped == len(tests) else 0
