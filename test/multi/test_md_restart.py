# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of `leat md`: the run that goes on from one is the run that was not interrupted."""
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import faults  # noqa: E402
import inputs  # noqa: E402
import lammps  # noqa: E402
import leat_md  # noqa: E402
import molecules  # noqa: E402
import trr  # noqa: E402
from md_device import SUMS  # noqa: E402

DOUBLE = ("--precision", "double")
FILES = ("--energies", "energies.csv", "--trajectory", "run.trr", "--checkpoint", "run.cpt",
         "--checkpoint-every", 20)
PACES = {"nstenergy": "15", "nstlist": "10", "nstxout": "7", "nstvout": "10", "nstfout": "15"}


def coupled(directory, **changed):
    """The shipped water with a thermostat, and sums and lists each at their own pace."""
    gro, top, mdp = leat_md.water()
    settings = {**SUMS, **PACES, **changed}
    return gro, top, leat_md.with_settings(mdp, pathlib.Path(directory) / "run.mdp", **settings)


def fresh(directory, name):
    path = pathlib.Path(directory) / name
    path.mkdir()
    return path


def elsewhere(directory, files):
    """The same input with all atoms somewhere else: a run that goes on does not look at them."""
    gro, top, mdp = files
    lines = gro.read_text(encoding="utf-8").splitlines()
    for row in range(2, len(lines) - 1):
        x = float(lines[row][20:28]) + 0.25
        lines[row] = f"{lines[row][:20]}{x:8.3f}{lines[row][28:44]}"
    moved = pathlib.Path(directory) / "elsewhere.gro"
    moved.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return moved, top, mdp


def outcome(directory, files, *options):
    done = leat_md.run(directory, files, "--out", "out.gro", *FILES, *options)
    report = done.report()
    return {"energies": (report["energy"], report["virial"], report["drift_kj_mol_ps_atom"]),
            "forces": pathlib.Path(done.forces_path).read_text(encoding="utf-8"),
            **{name: (directory / name).read_bytes()
               for name in ("out.gro", "energies.csv", "run.trr", "run.cpt")}}


def goes_on_to_the_bit(directory, files, options, steps, first, others=()):
    straight = outcome(fresh(directory, "straight"), files, *options, "--steps", steps)
    halves = fresh(directory, "halves")
    outcome(halves, files, *options, "--steps", first)
    assert (halves / "run.cpt").read_bytes() != straight["run.cpt"]
    again = outcome(halves, elsewhere(directory, files), *options, *others, "--steps", steps,
                    "--restart", "run.cpt")
    for what, value in straight.items():
        assert value == again[what], f"{what} differ with {options} {others}"
    shutil.rmtree(halves)
    shutil.rmtree(directory + "/straight")


def test_a_run_goes_on_to_the_bit(directory):
    files = coupled(directory)
    goes_on_to_the_bit(directory, files, ("-n", 1), 105, 60)
    goes_on_to_the_bit(directory, files, ("-n", 4, "--grid", "2x2x1", *DOUBLE), 45, 30)


def test_a_run_whose_domains_were_too_thin_goes_on_to_the_bit(directory):
    files = coupled(directory, rcoulomb="1.4", rvdw="1.4", verlet_buffer_tolerance="-1", rlist="1.5")
    goes_on_to_the_bit(directory, files, ("-n", 2, "--grid", "2x1x1"), 25, 15)


def test_a_run_goes_on_in_another_mode_to_the_bit(directory):
    for mode in ("host", "stream", "pulse", "resident"):
        goes_on_to_the_bit(directory, coupled(directory), ("-n", 2, "--rank-threads"), 25, 13,
                           ("--mode", mode))


def test_molecules_go_on_to_the_bit(directory):
    common = {**PACES, "nstcalcenergy": "15", "nstcomm": "6", "gen_vel": "no"}
    groups = {"tcoupl": "v-rescale", "tc_grps": "SOL ETH", "tau_t": "0.05 0.1",
              "ref_t": "310 290", "nsttcouple": "4"}
    for changed, options in (
            ({"define": "-DFLEXIBLE", "dt": "0.0005"}, ("-n", 2)),
            ({"constraints": "h-bonds", "dt": "0.002", **groups}, ("-n", 2, *DOUBLE)),
            ({"constraints": "all-bonds", "dt": "0.001", "integrator": "md-vv", **groups},
             ("-n", 2, "--rank-threads"))):
        files = molecules.box(directory, molecules.alcohol, {**common, **changed})
        goes_on_to_the_bit(directory, files, (*options, "--images"), 25, 13)


def melt(path, edge=5):
    """Lennard-Jones atoms near a lattice, hot enough that lists end before their time."""
    source = random.Random(3)
    width = (4.0 / 0.8442) ** (1.0 / 3.0)
    sites = [[width * (n + 0.25 + part) for n, part in zip(cell, offset)]
             for cell in itertools.product(range(edge), repeat=3)
             for offset in ((0, 0, 0), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5))]
    box = "".join(f"0 {edge * width!r} {d}lo {d}hi\n" for d in "xyz")
    atoms = "\n".join(f"{i} 1 {x!r} {y!r} {z!r}" for i, (x, y, z) in enumerate(sites, 1))
    speeds = "\n".join(" ".join([str(i), *(repr(source.gauss(0, 1.5)) for _ in range(3))])
                       for i in range(1, len(sites) + 1))
    path.write_text(f"melt\n\n{len(sites)} atoms\n1 atom types\n{box}\nMasses\n\n1 1\n\n"
                    f"Atoms # atomic\n\n{atoms}\n\nVelocities\n\n{speeds}\n", encoding="ascii")


def test_lists_that_end_before_their_time_go_on_to_the_bit(directory):
    data = pathlib.Path(directory) / "melt.data"
    melt(data)
    options = ("--units", "lj", "--pair", "lj/cut:2.5", "--pair-coeff", "1,1,1,1", "--skin", 0.3,
               "--rebuild", 20, "-n", 2, *FILES)
    for first in (33, 60):
        reports = []
        straight, halves = (fresh(directory, f"{name}{first}") for name in ("straight", "halves"))
        for where, steps, restart in ((straight, 75, ()), (halves, first, ()),
                                      (halves, 75, ("--restart", "run.cpt"))):
            reports.append(lammps.leat(where, data, *options, "--steps", steps, *restart))
        assert reports[0]["energy"] == reports[2]["energy"]
        assert reports[0]["forces"] == reports[2]["forces"]
        for name in ("energies.csv", "run.trr", "run.cpt"):
            assert (straight / name).read_bytes() == (halves / name).read_bytes(), (first, name)


def test_a_run_goes_on_on_a_device_to_the_bit(directory):
    files = inputs.argon(directory, **{**SUMS, **PACES}, gen_vel="no")
    goes_on_to_the_bit(directory, files, ("-n", 2, "--device", "emulated"), 25, 13)


def test_a_run_goes_on_on_other_ranks_within_rounding(directory):
    # A buffer that no pair crosses, or lists would differ by pairs.
    files = coupled(directory, verlet_buffer_tolerance="1e-7")
    halves = fresh(directory, "halves")
    outcome(halves, files, "-n", 2, *DOUBLE, "--steps", 30)
    checkpoint = halves / "run.cpt"
    straight = leat_md.run(directory, files, "-n", 2, *DOUBLE, "--steps", 45, "--restart",
                           checkpoint)
    moved = elsewhere(directory, files)
    for ranks in (1, 3, 8):
        done = leat_md.run(directory, moved, "-n", ranks, *DOUBLE, "--steps", 45, "--restart",
                           checkpoint)
        leat_md.assert_agrees(done, 1e-9, straight.report()["energy"], straight.forces)
        one, other = (run.report()["energy"]["conserved"] for run in (done, straight))
        assert abs(one - other) < 1e-9 * abs(other), (ranks, one, other)


def test_new_names_begin_new_files_and_shorter_ones_are_refused(directory):
    files = small(directory)
    leat_md.run(directory, files, *FILES, "--steps", 20)
    leat_md.run(directory, files, "--restart", "run.cpt", "--energies", "new.csv", "--trajectory",
                "new.trr", "--steps", 40)
    names = rows_of(pathlib.Path(directory) / "energies.csv")[0]
    rows = rows_of(pathlib.Path(directory) / "new.csv")
    assert rows[0] == names and [row.split(",")[0] for row in rows[1:]] == ["20", "30", "40"]
    steps = [step for step, _, _ in trr.frames(pathlib.Path(directory) / "new.trr")]
    assert steps[0] >= 20 and steps[-1] == 40, steps
    for option, name in (("--energies", "energies.csv"), ("--trajectory", "run.trr")):
        (pathlib.Path(directory) / name).write_bytes(b"short")
        done = leat_md.Run(directory, files, "--restart", "run.cpt", option, name, "--steps", 40)
        assert done.status == 1 and "it is another file" in done.err, done.err
        assert (pathlib.Path(directory) / name).read_bytes() == b"short"


def spoil(path, way):
    content = bytearray(path.read_bytes())
    if way == "head":
        content[100] ^= 1
    elif way == "section":
        content[-9] ^= 1
    elif way == "cut":
        content = content[:len(content) // 2]
    elif way == "empty":
        content = b""
    path.write_bytes(content)
    if way == "lost":
        path.unlink()


def test_a_damaged_checkpoint_gives_way_to_the_one_before(directory):
    files = coupled(directory)
    halves = fresh(directory, "halves")
    options = ("-n", 2, "--steps", 45)
    straight = outcome(halves, files, *options)
    kept = {name: (halves / name).read_bytes() for name in ("run.cpt", "run.cpt.prev")}
    assert kept["run.cpt"] != kept["run.cpt.prev"]
    for way in ("head", "section", "cut", "empty", "lost"):
        spoil(halves / "run.cpt", way)
        done = leat_md.Run(halves, files, *options, *FILES, "--restart", "run.cpt")
        assert done.status == 0 and "going on from run.cpt.prev at step 20" in done.err, done.err
        for name in ("energies.csv", "run.trr"):
            assert (halves / name).read_bytes() == straight[name], (way, name)
        # What is damaged does not take the place of the one that is not.
        assert (halves / "run.cpt").read_bytes() == kept["run.cpt"], way
        assert (halves / "run.cpt.prev").read_bytes() == kept["run.cpt.prev"], way
    for name in kept:
        spoil(halves / name, "section")
    done = leat_md.Run(halves, files, *options, "--restart", "run.cpt")
    assert done.status == 1 and "neither run.cpt nor run.cpt.prev" in done.err, done.err


def test_what_is_no_checkpoint_is_not_replaced(directory):
    files = small(directory)
    mine = pathlib.Path(directory) / "mine.txt"
    for content in ("a day's work\n", "a day's work\n" * 100):
        mine.write_text(content, encoding="utf-8")
        done = leat_md.Run(directory, files, "-n", 2, "--checkpoint", mine)
        assert done.status == 1 and "is no checkpoint; name another" in done.err, done.err
        assert mine.read_text(encoding="utf-8") == content
    pipe = pathlib.Path(directory) / "pipe"
    os.mkfifo(pipe)
    done = leat_md.Run(directory, files, "--checkpoint", pipe)
    assert done.status == 1 and "no regular file" in done.err and pipe.is_fifo(), done.err
    mine.write_bytes(b"")
    assert leat_md.Run(directory, files, "-n", 2, "--checkpoint", mine).status == 0
    assert mine.stat().st_size > 1000


def test_another_input_is_refused_by_name(directory):
    gro, top, mdp = coupled(directory)
    halves = fresh(directory, "halves")
    outcome(halves, (gro, top, mdp), "--steps", 20)
    checkpoint = halves / "run.cpt"

    def refused(word, *options, topology=top, **settings):
        path = leat_md.with_settings(mdp, pathlib.Path(directory) / "other.mdp", **settings)
        done = leat_md.Run(directory, (gro, topology, path), "--restart", checkpoint, "--steps", 40,
                           *options)
        assert done.status == 1 and word in done.err, f"{done.command}\n{done.err}"

    refused("dt_ps is 0.002 there and 0.001 here", dt=0.001)
    refused("ref_t_k", ref_t="300")
    refused("nstlist", nstlist=20)
    refused("double precision", *DOUBLE)
    refused("beyond the last step of this run, 10", "--steps", 10)
    heavy = pathlib.Path(directory) / "heavy.top"
    text = top.read_text(encoding="utf-8")
    itp = (top.parent / "spce.itp").read_text(encoding="utf-8")
    (pathlib.Path(directory) / "heavy.itp").write_text(itp.replace("15.9994", "16.9994"),
                                                       encoding="utf-8")
    heavy.write_text(text.replace("spce.itp", "heavy.itp"), encoding="utf-8")
    assert "heavy.itp" in heavy.read_text(encoding="utf-8")
    refused("topology", topology=heavy)


def small(directory):
    """Argon, in which a run of some steps is over at once."""
    return inputs.argon(directory, nsteps="40", nstlist="10", nstcalcenergy="10", nstenergy="10")


def test_whatever_fails_leaves_a_checkpoint_to_go_on_from(directory):
    library = faults.library(directory)
    files = small(directory)
    kinds = ("-n", 2, "--rank-threads", "--energies", "energies.csv", "--checkpoint",
             "checkpoints/run", "--checkpoint-every", 10, "--forces", "forces.txt")

    def run(where, fault, *options):
        call, number, what = fault.split()
        return leat_md.Run(where, files, *kinds, *options, env={
            "FAULT": f"{call} checkpoints {number} {what}", "LD_PRELOAD": library})

    straight = fresh(directory, "straight")
    (straight / "checkpoints").mkdir()
    assert run(straight, "none 0 0").status == 0
    # Checkpoints are due at 10, 20, 30 and 40: the third is the one that fails.
    cases = ("pwrite 45 28", "pwrite 50 5", "fdatasync 5 5", "fdatasync 6 28", "fsync 3 5",
             "rename 4 5", "rename 5 28", "pwrite 46 0", "pwrite 50 -1", "fdatasync 6 0",
             "rename 4 0", "rename 5 0", "rename 5 -1", "fsync 3 0")
    for number, fault in enumerate(cases):
        where = fresh(directory, f"fault{number}")
        (where / "checkpoints").mkdir()
        done = run(where, fault)
        assert done.status != 0, f"{fault}: nothing failed"
        if fault.split()[2] not in ("0", "-1"):
            assert "checkpoints" in done.err, f"{fault}: {done.err}"
        again = run(where, "none 0 0", "--restart", "checkpoints/run")
        assert again.status == 0, f"{fault}: {again.err}"
        for name in ("energies.csv", "forces.txt", "checkpoints/run"):
            assert (where / name).read_bytes() == (straight / name).read_bytes(), (fault, name)
        assert not (where / "cpt/run.tmp").exists(), fault


def test_killed_at_any_moment_it_goes_on(directory):
    files = small(directory)
    long = bool(os.environ.get("LEAT_LONG"))
    steps = 20000 if long else 2000
    options = ("-n", 2, "--energies", "energies.csv", "--checkpoint", "run.cpt",
               "--checkpoint-every", 10, "--steps", steps, "--forces", "forces.txt")
    straight, killed = fresh(directory, "straight"), fresh(directory, "killed")
    assert leat_md.Run(straight, files, *options, timeout=900).status == 0
    gro, top, mdp = map(str, files)
    command = [leat_md.leat_bin(), "md", "--gro", gro, "--top", top, "--mdp", mdp,
               *map(str, options)]
    for attempt in range(200 if long else 4):
        restart = ["--restart", "run.cpt"] if attempt else []
        process = subprocess.Popen(command + restart, cwd=killed, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        before = stamp_of(killed)
        while process.poll() is None and stamp_of(killed) == before:
            assert time.monotonic() < deadline, "no checkpoint was written"
            time.sleep(0.001)
        # Somewhere in the writing of the one after it.
        time.sleep(0.0007 * (attempt % 40))
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        _, error = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, error
    done = leat_md.Run(killed, files, *options, "--restart", "run.cpt", timeout=900)
    assert done.status == 0, done.err
    for name in ("energies.csv", "forces.txt", "run.cpt"):
        assert (killed / name).read_bytes() == (straight / name).read_bytes(), name


def test_interrupted_it_writes_a_checkpoint_and_goes_on(directory):
    files = small(directory)
    options = ("--energies", "energies.csv", "--checkpoint", "run.cpt", "--checkpoint-every", 10000,
               "--steps", 4000, "--forces", "forces.txt")
    for ranks, number in ((("-n", 1), signal.SIGTERM), (("-n", 2), signal.SIGINT),
                          (("-n", 2, "--rank-threads"), signal.SIGINT)):
        where = fresh(directory, f"{len(ranks)}{ranks[1]}")
        process = subprocess.Popen(
            [leat_md.leat_bin(), "md", "--gro", str(files[0]), "--top", str(files[1]), "--mdp",
             str(files[2]), *map(str, (*ranks, *options))], cwd=where, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(rows_of(where / "energies.csv")) < 5:
            assert time.monotonic() < deadline and process.poll() is None, "no steps were made"
            time.sleep(0.001)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert process.returncode != 0 and "go on with --restart run.cpt" in error, error
        assert error.count("go on with") == 1, error
        before = len(rows_of(where / "energies.csv"))
        done = leat_md.Run(where, files, *ranks, *options, "--restart", "run.cpt")
        assert done.status == 0, done.err
        rows = rows_of(where / "energies.csv")
        assert 5 <= before < len(rows) == 402, (before, len(rows))
        assert [int(row.split(",")[0]) for row in rows[1:]] == list(range(0, 4001, 10))


def rows_of(path):
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def stamp_of(directory):
    try:
        return (directory / "run.cpt").stat().st_ino
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
