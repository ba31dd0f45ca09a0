#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into an empty prefix and uses it from a project outside the tree, as a user
# would: shared and static, by pkg-config and by CMake, from C and (headers only) from C++.
# usage: try.sh BUILD_DIR
set -euo pipefail

build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

prefix=$scratch/prefix
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log"
cp "$here/outside.c" "$here/CMakeLists.txt" "$scratch"
cd "$scratch"

# The installed tree has to work after a move, and must not reach back into the build.
mv "$prefix" "$scratch/moved"
prefix=$scratch/moved
if grep -rIlF "$build" "$prefix"; then
    echo "the files above name the build directory" >&2
    exit 1
fi

libdir=$(dirname "$(find "$prefix" -name libleat.a)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
export LD_LIBRARY_PATH=$libdir
cc=${CC:-cc}

version=$(pkg-config --modversion leat)
echo "pkg-config: leat $version"

# shellcheck disable=SC2046 # the words of pkg-config are meant to be split
$cc -std=c17 -Wall -Wextra -Werror outside.c -o by_pkg_config $(pkg-config --cflags --libs leat)
./by_pkg_config
readelf -d by_pkg_config | grep -q 'libleat\.so\.0' || {
    echo "by_pkg_config does not ask for libleat.so.0" >&2
    exit 1
}

# shellcheck disable=SC2046
$cc -std=c17 outside.c -o by_pkg_config_static $(pkg-config --cflags leat) \
    "$libdir/libleat.a" $(pkg-config --static --libs-only-other --libs-only-l leat |
        sed 's/-lleat//')
env -u LD_LIBRARY_PATH ./by_pkg_config_static

cmake -S . -B by_cmake -DCMAKE_PREFIX_PATH="$prefix" >cmake.log || {
    cat cmake.log
    exit 1
}
cmake --build by_cmake >>cmake.log || {
    cat cmake.log
    exit 1
}
./by_cmake/outside_shared
env -u LD_LIBRARY_PATH ./by_cmake/outside_static

for header in "$prefix"/include/leat/*.h; do
    printf '#include <leat/%s>\nint main() { return 0; }\n' "$(basename "$header")" >header.cpp
    ${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I "$prefix/include" header.cpp
done

if [ -x "$prefix/bin/leat" ]; then
    env -u LD_LIBRARY_PATH "$prefix/bin/leat" --version
fi
echo "installed, moved, found and used"
