#!/bin/bash
# Installs the library, builds a program against it through pkg-config and through CMake, and checks SONAME and ABI.
set -euo pipefail
if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: a sanitized library is not for installing"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$BUILD" --prefix "$prefix" >"$work/install.log"
library=$(find "$prefix" -name librlx.so)
libdir=$(dirname "$library")

soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = librlx.so.0 ] || { echo "SONAME is $soname"; exit 1; }
python3 "$SRC/tools/abi.py" symbols "$library"
python3 "$SRC/tools/abi.py" check "$library"
for file in include/rlx/rlx.h include/rlx/extend.h share/doc/rlx/LICENSE share/doc/rlx/LICENSES.md share/doc/rlx/packages/sparse.md \
    share/bash-completion/completions/rlx; do
    [ -f "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
"$prefix/bin/rlx" devices >/dev/null

# A package in rlx/ beside librlx.so is found by its domain, wherever the tree was put.
(
    unset RLX_PACKAGE_PATH
    model=$SRC/examples/custom_op/model.onnx
    if "$prefix/bin/rlx" check "$model" 2>"$work/without"; then
        echo "acme was found before it was installed"
        exit 1
    fi
    mkdir -p "$libdir/rlx"
    cp "$BUILD/packages/librlx-acme.so" "$libdir/rlx/"
    "$prefix/bin/rlx" check "$model" >/dev/null
    mv "$prefix" "$work/moved"
    "$work/moved/bin/rlx" check "$model" >/dev/null
    "$work/moved/bin/rlx" test "$SRC/tests/packages/sparse" >/dev/null
    mv "$work/moved" "$prefix"
)

cat >"$work/consumer.c" <<'C'
#include <rlx/extend.h>
#include <stdio.h>

int main(void) {
  printf("rlx %s\n", rlx_version());
  return rlx_device_count() > 0 ? 0 : 1;
}
C

export PKG_CONFIG_PATH=$libdir/pkgconfig
for compiler in cc c++; do
    language=$([ $compiler = cc ] && echo c || echo c++)
    # shellcheck disable=SC2046
    $compiler -x "$language" "$work/consumer.c" -x none -o "$work/by-pkg-config" $(pkg-config --cflags --libs rlx) \
        "-Wl,-rpath,$libdir"
    "$work/by-pkg-config"
done
[ "$(pkg-config --modversion rlx)" = "$("$work/by-pkg-config" | cut -d' ' -f2)" ] || { echo "rlx.pc: wrong version"; exit 1; }

cat >"$work/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(Rlx 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer Rlx::rlx)
C
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log"
cmake --build "$work/build" >>"$work/cmake.log"
"$work/build/consumer"
