# SPDX-License-Identifier: Apache-2.0
"""`leat md` where something is wrong: the right status, one message, nobody left waiting."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import inputs  # noqa: E402
import leat_md  # noqa: E402


def fails(directory, files, *options, status=1, **keywords):
    done = leat_md.Run(directory, files, *options, **keywords)
    assert done.status == status, f"status {done.status} of {done.command}\n{done.err}"
    assert done.out == "", done.out
    return done.err


def own_lines(text):
    """Lines of errors. The launcher's only, of ranks that exit, is that none is left to tell."""
    return [line for line in text.splitlines() if line.startswith(("leat[", "leat:")) and
            "warning" not in line]


def edited(directory, name, change):
    """The shipped water with its lines changed."""
    lines = (leat_md.DATA / "water.gro").read_text(encoding="utf-8").splitlines()
    path = pathlib.Path(directory) / name
    path.write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
    return path, leat_md.DATA / "water.top", leat_md.DATA / "water.mdp"


def test_a_missing_file_is_named_once(directory):
    gro, top, mdp = leat_md.water()
    for options in ((), ("-n", 3), ("-n", 3, "--rank-threads")):
        text = fails(directory, (gro.parent / "missing.gro", top, mdp), *options)
        assert len(own_lines(text)) == 1 and "missing.gro" in own_lines(text)[0], text


def test_a_fault_in_an_included_file_is_told_once_by_file_and_line(directory):
    gro, top, mdp = leat_md.water()
    itp = pathlib.Path(directory) / "spce.itp"
    lines = (top.parent / "spce.itp").read_text(encoding="utf-8").splitlines()
    row = next(i for i, line in enumerate(lines) if "settles" in line) + 1
    lines.insert(row, "no number here")
    itp.write_text("\n".join(lines) + "\n", encoding="utf-8")
    own = pathlib.Path(directory) / "water.top"
    own.write_text(top.read_text(encoding="utf-8"), encoding="utf-8")
    for options in ((), ("-n", 4), ("-n", 4, "--rank-threads")):
        text = fails(directory, (gro, own, mdp), *options, timeout=20)
        assert len(own_lines(text)) == 1, text
        assert f"spce.itp:{row + 1}" in own_lines(text)[0], text


def test_files_that_do_not_fit_are_refused(directory):
    files = edited(directory, "short.gro", lambda lines: [lines[0], " 2997", *lines[2:-4],
                                                          lines[-1]])
    text = fails(directory, files, "-n", 2)
    assert "2997" in text and "3000" in text and "short.gro" in text, text


def test_a_box_too_small_for_the_list_is_refused_before_a_step(directory):
    files = edited(directory, "thin.gro", lambda lines: lines[:-1] + ["   1.70000   3.2 3.2"])
    text = fails(directory, files, "-n", 2)
    assert len(own_lines(text)) == 1 and "0.9 nm" in text and "1.7 nm" in text, text


def test_boxes_that_do_not_fit_are_refused_with_numbers(directory):
    def with_box(text, *options):
        files = edited(directory, "box.gro", lambda lines: lines[:-1] + [text])
        told = fails(directory, files, *options)
        assert len(own_lines(told)) == 1, told
        return told

    # Vector c is the way to the nearest image, 1.7464 nm.
    told = with_box("3.1 3.1 1.0 0 0 0 0 0.6 1.3", "--steps", 0)
    assert "0.9 nm" in told and "1.7464 nm" in told and "0.8732 nm" in told and "--tile" in told, told
    told = with_box("3.1 3.1 3.1 0 0.5 0 0 0 0", "-n", 2)
    assert "vector a" in told and "0.5 nm" in told, told
    told = with_box("3.1 3.1 0.0 0 0 0 0 0 0")
    assert "edge z" in told and "box.gro" in told, told
    # The cut-off fits, the buffer does not, but it does with images.
    told = with_box("1.90 3.2 3.2", "-n", 2, "--steps", 0)
    assert "0.9 " in told and "1.9 nm" in told and "--images" in told, told


def test_output_that_cannot_be_written_is_refused_before_step_0(directory):
    files = leat_md.water()
    for option in ("--out", "--forces"):
        for options in ((), ("-n", 2), ("-n", 2, "--rank-threads")):
            text = fails(directory, files, option, "no-such-folder/file", *options)
            lines = own_lines(text)
            assert len(lines) == 1 and "no-such-folder/file" in lines[0], text
            assert "No such file or directory" in lines[0] and "step 0" not in text, text
    text = fails(directory, files, "--out", directory)
    assert "Is a directory" in text, text


def test_broken_molecules_are_not_repeated(directory):
    def wrap(lines):
        edges = [float(word) for word in lines[-1].split()]
        atoms = []
        for line in lines[2:-1]:
            place = [float(line[20 + 8 * d:28 + 8 * d]) % edges[d] for d in range(3)]
            atoms.append(line[:20] + "".join(f"{x:8.3f}" for x in place) + line[44:])
        return [*lines[:2], *atoms, lines[-1]]

    files = edited(directory, "wrapped.gro", wrap)
    leat_md.Run(directory, files, "--json", "--steps", 0).report()  # broken ones are made whole
    text = fails(directory, files, "--steps", 0, "--tile", "2x1x1", "-n", 2)
    assert len(own_lines(text)) == 1 and "gmx trjconv -pbc whole" in own_lines(text)[0], text


def test_a_molecule_torn_apart_names_the_atom(directory):
    def tear(lines):
        lines[102] = lines[102][:20] + " 150.000" + lines[102][28:]
        return lines

    text = fails(directory, edited(directory, "torn.gro", tear), "-n", 4)
    assert len(own_lines(text)) == 1 and "atom" in text, text


def test_an_atom_much_too_fast_names_atom_and_step(directory):
    def speed_up(lines):
        for row in (101, 102, 103):  # one whole molecule, so that no bond is the obstacle
            lines[row] = lines[row][:44] + "9000.0000"[:8] + lines[row][52:]
        return lines

    gro, top, mdp = edited(directory, "fast.gro", speed_up)
    mdp = leat_md.with_settings(mdp, pathlib.Path(directory) / "fast.mdp", continuation="yes",
                                verlet_buffer_tolerance="-1", rlist="1.0")
    for options in ((), ("-n", 4), ("-n", 4, "--rank-threads")):
        text = fails(directory, (gro, top, mdp), *options)
        lines = own_lines(text)
        assert len(lines) == 1 and "step 0" in lines[0], text
        # Numbers are those of the files, from 1: the molecule's atoms are 100 to 102.
        assert any(f"atom {number} " in lines[0] for number in (100, 101, 102)), text


def test_an_error_in_a_resident_step_is_told_in_its_own_words(directory):
    def speed_up(lines):
        lines[100] = lines[100][:44] + "  80.0000"[:8] + lines[100][52:]
        return lines

    # A free atom that crosses the liquid meets another within a few steps.
    files = inputs.argon(directory, nsteps="100", nstcalcenergy="50", verlet_buffer_tolerance="-1",
                         rlist="1.0", dt="0.005")
    gro = pathlib.Path(files[0])
    lines = speed_up(gro.read_text(encoding="utf-8").splitlines())
    gro.write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = []
    for mode in ("fused", "resident"):
        text = fails(directory, files, "-n", 2, "--mode", mode)
        assert len(own_lines(text)) == 1, text
        told.append(own_lines(text)[0])
    assert told[0] == told[1] and "would move" in told[0] and "step 0" not in told[0], told


def test_two_atoms_in_one_place_end_with_an_error(directory):
    def pile_up(lines):
        for offset in range(3):  # second molecule onto the first
            lines[5 + offset] = lines[5 + offset][:20] + lines[2 + offset][20:44] + lines[5 + offset][44:]
        return lines

    files = edited(directory, "pile.gro", pile_up)
    text = fails(directory, files, "-n", 2)
    assert len(own_lines(text)) == 1 and "step 0" in text, text
    text = fails(directory, files, "--oracle", "--json", "--forces", "no.txt")
    assert len(own_lines(text)) == 1 and "energy is not finite" in text, text
    assert not os.path.exists(os.path.join(directory, "no.txt"))


def test_a_temperature_without_a_list_cutoff_names_its_keyword(directory):
    gro, top, mdp = leat_md.water()
    target = pathlib.Path(directory) / "hot.mdp"
    for values, keyword in (({"gen_temp": "1e30", "gen_vel": "yes", "tcoupl": "no",
                              "continuation": "no"}, "'gen-temp'"),
                            ({"ref_t": "1e30", "tcoupl": "v-rescale", "tc_grps": "System",
                              "tau_t": "0.1"}, "'ref-t'")):
        files = gro, top, leat_md.with_settings(mdp, target, verlet_buffer_tolerance="0.005",
                                                **values)
        text = fails(directory, files, timeout=30)
        lines = own_lines(text)
        assert len(lines) == 1 and "1e+30" in lines[0] and keyword in lines[0], text
        assert "hot.mdp" in lines[0] and "list cut-off" in lines[0], text


def test_boxes_of_absurd_size_are_refused_by_line(directory):
    for size in ("1e100", "1e300", "1.0e5001", "200000", "1e-4", "0"):
        files = edited(directory, "vast.gro", lambda lines, size=size: lines[:-1] +
                       [f"{size} 3.0 3.0"])
        for options in (("--steps", 0), ("-n", 2, "--steps", 0), ("--oracle",)):
            lines = own_lines(fails(directory, files, *options))
            assert len(lines) == 1 and "vast.gro:3003" in lines[0], lines


def children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text(encoding="utf-8").split()]


def ranks_of(launcher):
    """The ranks are children of the launcher's one child, their keeper."""
    return [rank for keeper in children(launcher) for rank in children(keeper)]


def long_run(directory, ranks, timeout_s, *options):
    gro, top, mdp = (str(path) for path in leat_md.water())
    command = [leat_md.leat_bin(), "md", "--gro", gro, "--top", top, "--mdp", mdp, "-n", str(ranks),
               "--steps", "100000000", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=directory, env={**os.environ, "LEAT_TIMEOUT": str(timeout_s)})
    return process


def wait_until_busy(process, ranks):
    """Until every rank has computed for a while: CPU time is the only thing to see from outside."""
    ticks = os.sysconf("SC_CLK_TCK")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pids = ranks_of(process.pid)
        used = []
        for pid in pids:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
            words = stat.rsplit(")", 1)[1].split()
            used.append((int(words[11]) + int(words[12])) / ticks)
        if len(pids) == ranks and min(used) > 0.3:
            return pids
        time.sleep(0.02)
    raise AssertionError("the ranks did not start to compute within a minute")


def finish(process, seconds):
    try:
        return process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def kill_one(directory, mode):
    process = long_run(directory, 4, 60, "--mode", mode)
    try:
        pids = wait_until_busy(process, 4)
        os.kill(pids[2], signal.SIGKILL)
        text = finish(process, 20)  # far below LEAT_TIMEOUT
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGKILL, text
    assert "killed by signal 9" in text and "step " in text, text
    assert any(line.startswith("leat[") and "rank 2" in line for line in text.splitlines()), text
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_survivors_of_a_killed_rank_name_it(directory):
    for mode in ("fused", "resident"):
        kill_one(directory, mode)


def test_survivors_of_a_stopped_rank_time_out(directory):
    process = long_run(directory, 4, 2)
    try:
        pids = wait_until_busy(process, 4)
        os.kill(pids[1], signal.SIGSTOP)
        text = finish(process, 40)
    finally:
        process.kill()
    assert process.returncode == 124, text
    assert any("rank 1" in line and "step " in line for line in own_lines(text)), text
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_wrong_usage_is_status_two(directory):
    files = leat_md.water()
    for options in (("--grid", "2x2x1", "-n", 3), ("--order", "yxz"), ("--mode", "persistent"), ("-n", "0"), ("--steps", "-1"),
                    ("--tile", "0x1x1"), ("--oracle", "--out", "x.gro"), ("surplus",)):
        fails(directory, files, *options, status=2)


def test_what_is_missing_says_so(directory):
    files = leat_md.water()
    none = {"CUDA_VISIBLE_DEVICES": ""}
    assert "cuda" in fails(directory, files, "--device", "cuda", status=77, env=none).lower()


def test_a_job_of_another_size_is_refused(directory):
    gro, top, mdp = (str(path) for path in leat_md.water())
    leat = leat_md.leat_bin()
    command = [leat, "run", "-n", "2", leat, "md", "--gro", gro, "--top", top, "--mdp", mdp,
               "--steps", "0"]
    done = subprocess.run([*command, "-n", "3"], capture_output=True, text=True, timeout=60,
                          check=False, cwd=directory)
    assert done.returncode == 2 and "3" in done.stderr, done.stderr
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          cwd=directory)
    assert done.returncode == 0 and "2 ranks" in done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
