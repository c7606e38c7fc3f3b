#!/bin/sh
# Installs what a task needs and says nothing when nothing is missing. Usage: tools/setup.sh [GROUP...], with groups
# build, check, test, tsan (packages), venv and export (Python environments); default: build venv. On Debian and Ubuntu missing
# packages are installed; elsewhere they are named and the exit status is 1.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $*" >&2
    exit 1
}

debian_packages() {
    case $1 in
    build) echo "gcc g++ make cmake ninja-build pkg-config ccache libcjson-dev libxxhash-dev libcmocka-dev libdnnl-dev" \
                "libjpeg-dev libpng-dev libwebp-dev libtiff-dev libopenjp2-7-dev" \
                "glslang-dev spirv-tools mesa-vulkan-drivers libvulkan-dev vulkan-validationlayers" \
                "libsuitesparse-dev liblapacke-dev python3 python3-venv" ;;
    check) echo "clang-format cppcheck binutils python3 g++" ;;
    tsan) echo "clang libclang-rt-dev libomp-dev llvm" ;;
    fuzz) echo "clang libclang-rt-dev libomp-dev" ;;
    test) echo "gobjc clang-16" ;; # the software Metal
    esac
}

# Prints the packages among its arguments that are not installed. A tool found on PATH also counts as installed.
missing_debian() {
    for package in "$@"; do
        case $package in
        ninja-build) command -v ninja >/dev/null && continue ;;
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null && continue ;;
        gcc | g++ | make | cmake | pkg-config | ccache | python3 | clang | clang-format | cppcheck)
            command -v "$package" >/dev/null && continue ;;
        esac
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *" installed") ;;
        *) echo "$package" ;;
        esac
    done
}

install_debian() {
    missing=$(missing_debian "$@" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "missing packages, and neither root nor sudo to install them: $missing"
        as_root=sudo
    fi
    echo "setup: installing $missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # word splitting is meant
    $as_root apt-get install -qq -y --no-install-recommends $missing >/dev/null 2>&1 ||
        { $as_root apt-get update -qq && $as_root apt-get install -qq -y --no-install-recommends $missing >/dev/null; } ||
        fail "apt-get could not install: $missing"
}

# On other systems: name what is missing.
require() {
    missing=
    case $1 in
    build) tools="cc cmake pkg-config python3" modules="libcjson cmocka" ;;
    check) tools="clang-format cppcheck python3 c++" modules= ;;
    tsan | fuzz) tools=clang modules= ;;
    test) return 0 ;; # the tests that these are for are left out, with a message
    esac
    for tool in $tools; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    for module in $modules; do
        pkg-config --exists "$module" 2>/dev/null || missing="$missing $module(pkg-config)"
    done
    if [ "$1" = build ] && command -v cc >/dev/null; then
        echo '#include <xxhash.h>' | cc $(pkg-config --cflags libxxhash 2>/dev/null) -E -x c - >/dev/null 2>&1 ||
            missing="$missing xxhash.h"
    fi
    [ -z "$missing" ] || fail "please install:$missing (optional: oneDNN, ccache, ninja)"
}

# Makes the Python environment $1 from the pinned packages of $2; a stamp in it tells whether it is up to date.
make_venv() {
    if cmp -s "$2" "$1/requirements.stamp"; then
        return 0
    fi
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$1 needs Python 3.11 or newer"
    echo "setup: making $1"
    rm -rf "$1"
    mkdir -p build
    python3 -m venv "$1"
    "$1/bin/pip" install -q --disable-pip-version-check --no-deps -r "$2"
    cp "$2" "$1/requirements.stamp"
}

[ $# -gt 0 ] || set -- build venv
for group in "$@"; do
    if [ "$group" = venv ]; then
        make_venv build/venv tools/requirements.txt
    elif [ "$group" = export ]; then
        make_venv build/venv-export tools/requirements-export.txt
    elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
        # shellcheck disable=SC2046
        install_debian $(debian_packages "$group")
    else
        require "$group"
    fi
done
