#!/bin/sh
# Checks that need no test run: format, source rules, lint, public headers, exported symbols. Usage: tools/check.sh
# [BUILD]. Prints what it finds and exits with 1 if there is anything.
set -u
cd "$(dirname "$0")/.."
build=${1:-build}
status=0

step() {
    name=$1
    shift
    if ! "$@"; then
        echo "check: $name failed"
        status=1
    fi
}

# Each public header compiles alone, as C99 and as C++11, without warnings.
public_headers() {
    bad=0
    for header in include/rlx/*.h; do
        name=rlx/$(basename "$header")
        for language in "c -std=c99" "c++ -std=c++11"; do
            # shellcheck disable=SC2086
            echo "#include <$name>" |
                ${CC:-cc} -x $language -Wall -Wextra -Wshadow -Wconversion -pedantic -Werror -Iinclude -fsyntax-only - ||
                { echo "$name is not valid as $language"; bad=1; }
        done
    done
    return $bad
}

lint() {
    mkdir -p "$build/cppcheck"
    cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance --inline-suppr \
        --suppressions-list=tools/cppcheck.txt --cppcheck-build-dir="$build/cppcheck" -j "$(nproc 2>/dev/null || echo 2)" \
        -D__STDC__ -DRLX_HAVE_ONEDNN=1 -I include -I src --file-filter='*.c' src packages examples 2>&1
}

shell_syntax() {
    for script in tools/*.sh tests/cmd/*.sh; do
        [ -e "$script" ] || continue
        bash -n "$script" || return 1
    done
}

exported() {
    library=$build/librlx.so
    [ -e "$library" ] || { echo "$library is not built"; return 1; }
    python3 tools/abi.py symbols "$library"
}

step format python3 tools/format.py --check
step "source rules" python3 tools/source_rules.py
step headers public_headers
step symbols exported
step shell shell_syntax
step lint lint
[ $status -ne 0 ] || echo "check: passed"
exit $status
