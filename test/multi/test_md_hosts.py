# SPDX-License-Identifier: Apache-2.0
"""`leat md` over two hosts (network namespaces): the bits of as many ranks of one host."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import leat_md  # noqa: E402

RUN = ("--steps", 12, "--precision", "double", "--out", "out.gro", "--forces", "forces.txt")
LIMIT_S = 60


def ip(*arguments):
    return subprocess.run(["ip", *map(str, arguments)], capture_output=True, check=False).returncode


@contextlib.contextmanager
def networks():
    """The names of two network namespaces that are joined by a link."""
    leat_md.need_program("ip")
    names = [f"leat-md-{os.getpid()}-{i}" for i in range(2)]
    try:
        good = all(ip("netns", "add", name) == 0 for name in names)
        good = good and ip("link", "add", "leat-a", "netns", names[0], "type", "veth",
                           "peer", "name", "leat-b", "netns", names[1]) == 0
        for i, name in enumerate(names):
            link = f"leat-{'ab'[i]}"
            good = good and ip("-n", name, "addr", "add", f"10.79.0.{i + 1}/24", "dev", link) == 0
            good = good and ip("-n", name, "link", "set", link, "up") == 0
            good = good and ip("-n", name, "link", "set", "lo", "up") == 0
        if not good:
            raise leat_md.Skip("network namespaces cannot be made here")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name)


def run_over(names, directory, *options):
    """Rank 0's report, its final coordinates and forces; one rank a name."""
    gro, top, mdp = map(str, leat_md.water())
    env = {**os.environ, "LEAT_ROOT": "10.79.0.1:7970", "LEAT_SIZE": str(len(names)),
           "LEAT_JOB_KEY": "a secret of the test 0123456789", "LEAT_TIMEOUT": "20"}
    ranks = [
        subprocess.Popen(["ip", "netns", "exec", name, leat_md.leat_bin(), "md", "--gro", gro,
                          "--top", top, "--mdp", mdp, "--json", *map(str, RUN + options)],
                         cwd=directory, env={**env, "LEAT_RANK": str(rank)}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank, name in enumerate(names)
    ]
    try:
        said = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    errors = "".join(error for _, error in said)
    if "libfabric-dev" in errors or "install libfabric1" in errors:
        raise leat_md.Skip("there is no libfabric here")
    assert all(rank.returncode == 0 for rank in ranks), errors
    return json.loads(said[0][0]), texts(directory)


def texts(directory):
    return [(pathlib.Path(directory) / name).read_text(encoding="utf-8")
            for name in ("out.gro", "forces.txt")]


def test_two_hosts_give_the_bits_of_one(directory):
    near = leat_md.Run(directory, leat_md.water(), "--json", "-n", 2, *RUN).report()
    wanted = texts(directory)
    with networks() as names:
        for mode in ("host", "fused"):
            for text in ("out.gro", "forces.txt"):
                (pathlib.Path(directory) / text).unlink()
            report, written = run_over(names, directory, "--mode", mode)
            assert report["mode"] == mode and report["ranks"] == 2
            assert report["energy"] == near["energy"], mode
            assert written == wanted, mode
            assert any(path["path"] == "fabric" and path["bytes"] > 0 for path in report["paths"])


if __name__ == "__main__":
    sys.exit(leat_md.main(globals()))
