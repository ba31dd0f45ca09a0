#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a task needs and that are missing.
# usage: setup.sh build|check|bench|lint|ci...
# As root on Debian it installs them; otherwise it prints what to install and fails. When nothing
# is missing it asks no package server, so every target of the Makefile can call it.
set -euo pipefail

# package probe: the probe is a command that succeeds when the thing is there from elsewhere.
build_packages() {
    cat <<'EOF'
gcc              command -v cc
libc6-dev        test -e /usr/include/stdio.h
make             command -v make
cmake            command -v cmake
ninja-build      command -v ninja
pkg-config       command -v pkg-config
libjansson-dev   pkg-config --exists jansson
liburing-dev     pkg-config --exists liburing
EOF
}

check_packages() {
    cat <<'EOF'
libcmocka-dev    pkg-config --exists cmocka
zlib1g-dev       pkg-config --exists zlib
libfuse3-dev     pkg-config --exists fuse3
fuse3            command -v fusermount3
python3          command -v python3
g++              command -v c++
binutils         command -v nm
EOF
    # The programs that results are compared with. Large, so they can be left out; the tests
    # that want them then skip.
    if [ "${LEAT_NO_PEERS:-0}" != 1 ]; then
        cat <<'EOF'
gromacs          command -v gmx_d
lammps           command -v lmp
EOF
        mpi_packages
    fi
}

# Messages are compared with both MPIs, in tests and, for speed, in benchmarks.
mpi_packages() {
    cat <<'EOF'
openmpi-bin      command -v mpirun.openmpi
libpmix-dev      pkg-config --exists pmix
libfabric-dev    pkg-config --exists libfabric
libopenmpi-dev   command -v mpicc.openmpi
mpich            command -v mpirun.mpich
libmpich-dev     command -v mpicc.mpich
EOF
}

lint_packages() {
    cat <<'EOF'
clang-format     command -v clang-format
clang-tidy       command -v clang-tidy
cppcheck         command -v cppcheck
git              command -v git
shellcheck       command -v shellcheck
EOF
}

ci_packages() {
    cat <<'EOF'
clang            command -v clang
libclang-rt-dev  false
util-linux       command -v setarch
iproute2         command -v ip
nftables         command -v nft
EOF
}

wanted() {
    for task in "$@"; do
        case $task in
        build) build_packages ;;
        check) build_packages && check_packages ;;
        bench) build_packages && mpi_packages ;;
        lint) build_packages && check_packages && lint_packages ;;
        ci) build_packages && check_packages && lint_packages && ci_packages ;;
        *)
            echo "usage: $0 build|check|bench|lint|ci..., got '$task'" >&2
            exit 2
            ;;
        esac
    done | sort -u
}

# Prints the packages that are neither installed nor found by their probe.
missing() {
    local installed package probe
    # shellcheck disable=SC2016,SC2046 # the format is dpkg's, the names are meant to be split
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' \
        $(wanted "$@" | awk '{print $1}') 2>/dev/null | awk '$2 == "installed" {print $1}' || true)
    wanted "$@" | while read -r package probe; do
        grep -qx -- "$package" <<<"$installed" || eval "$probe" >/dev/null 2>&1 || echo "$package"
    done
}

if [ $# -eq 0 ]; then
    set -- build
fi
wanted "$@" >/dev/null
packages=$(missing "$@" | tr '\n' ' ')
if [ -z "$packages" ]; then
    exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing for '$*': $packages" >&2
    echo "on Debian, run: sudo apt-get install --no-install-recommends $packages" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive
options=(-qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing: $packages" >&2
# Lists that are there already may do even when they cannot be refreshed.
apt-get "${options[@]}" update </dev/null >"$log" 2>&1 || cat "$log" >&2
# shellcheck disable=SC2086
if ! apt-get "${options[@]}" install -y --no-install-recommends $packages </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    echo "apt-get could not install: $packages" >&2
    exit 1
fi
