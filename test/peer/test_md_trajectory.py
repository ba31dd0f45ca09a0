# SPDX-License-Identifier: Apache-2.0
"""Trajectories of `leat md` beside those of `gmx mdrun`: which frames, and what they hold.

GROMACS reads what leat has written, in both precisions, and in double both make the same steps.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import inputs  # noqa: E402
import leat_md  # noqa: E402
import trr  # noqa: E402

PACES = {"nsteps": "11", "nstxout": "4", "nstvout": "2", "nstfout": "3"}


def gmx(directory, program, *arguments):
    leat_md.need_program(program)
    done = subprocess.run([program, "-quiet", "-nobackup", *map(str, arguments)], cwd=directory,
                          capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def distance(name, one, other, box):
    """Largest difference of two arrays; positions differ by whole boxes at will."""
    worst = 0.0
    for i, (a, b) in enumerate(zip(one, other)):
        gap = a - b
        if name == "x":
            gap -= round(gap / box[4 * (i % 3)]) * box[4 * (i % 3)]
        worst = max(worst, abs(gap))
    return worst


def frames_are_those_of_gromacs(directory, splits, **changed):
    files = inputs.argon(directory, verlet_buffer_tolerance="1e-9", **PACES, **changed)
    gro, top, mdp = files
    gmx(directory, "gmx_d", "grompp", "-f", mdp, "-c", gro, "-p", top, "-o", "peer.tpr",
        "-maxwarn", 9)
    gmx(directory, "gmx_d", "mdrun", "-s", "peer.tpr", "-deffnm", "peer", "-nt", 1)
    theirs = trr.frames(pathlib.Path(directory) / "peer.trr")
    for options in splits:
        leat_md.run(directory, files, "--precision", "double", "--trajectory", "ours.trr", *options)
        ours = trr.frames(pathlib.Path(directory) / "ours.trr")
        # mdrun leaves the last step to its .gro, unless it is one of the others.
        assert ours[-1][0] == 11 and sorted(ours[-1][2]) == ["box", "v", "x"]
        ours = ours[:-1]
        assert [(f[0], sorted(f[2])) for f in ours] == [(f[0], sorted(f[2])) for f in theirs]
        for (step, time, arrays), (_, peer_time, peer) in zip(ours, theirs):
            assert abs(time - peer_time) < 1e-12
            for name, values in arrays.items():
                size = max(map(abs, peer[name]))
                worst = distance(name, values, peer[name], arrays["box"])
                assert worst <= 1e-9 * size, (step, name, worst, size)


def test_frames_of_leap_frog_are_those_of_gromacs(directory):
    frames_are_those_of_gromacs(directory, ((), ("-n", 4, "--grid", "2x2x1", "--rank-threads")))


def test_frames_of_velocity_verlet_are_those_of_gromacs(directory):
    frames_are_those_of_gromacs(directory, (("-n", 2),), integrator="md-vv")


def test_gromacs_reads_what_is_written(directory):
    files = inputs.argon(directory, **PACES)
    for precision, program in (("mixed", "gmx"), ("double", "gmx_d")):
        leat_md.run(directory, files, "--precision", precision, "-n", 2, "--trajectory", "ours.trr")
        said = gmx(directory, program, "check", "-f", "ours.trr")
        counts = dict(re.findall(r"^(Coords|Velocities|Forces|Box) +(\d+)", said, re.MULTILINE))
        assert counts == {"Coords": "4", "Velocities": "7", "Forces": "4", "Box": "9"}, said
        dumped = gmx(directory, program, "dump", "-f", "ours.trr")
        steps = re.findall(r"natoms= *512 +step= *(\d+) +time=(\S+)", dumped)
        assert [int(step) for step, _ in steps] == [0, 2, 3, 4, 6, 8, 9, 10, 11], steps
        rows = re.findall(r"\b[xvf]\[ *511\]=\{(.*?)\}", dumped)
        numbers = [float(word) for row in rows for word in row.split(",")]
        mine = [value for _, _, arrays in trr.frames(pathlib.Path(directory) / "ours.trr")
                for name in "xvf" if name in arrays for value in arrays[name][-3:]]
        assert len(numbers) == len(mine)
        assert all(abs(a - b) <= 6e-6 * max(1.0, abs(b)) for a, b in zip(numbers, mine))


def test_gromacs_reads_frames_of_gro(directory):
    files = inputs.argon(directory, **PACES)
    leat_md.run(directory, files, "-n", 2, "--trajectory", "ours.gro")
    said = gmx(directory, "gmx", "check", "-f", "ours.gro")
    assert re.search(r"^Coords +4\b", said, re.MULTILINE), said
    assert re.search(r"^# Atoms  512$", said, re.MULTILINE), said


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
