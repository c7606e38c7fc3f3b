#!/bin/bash
# The fuzzers, a minute each and all at once, where clang and its libFuzzer are there; they find nothing. Sanitizer builds
# leave it out: the fuzzers bring their own.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"

[ -z "$SANITIZE" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n); int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }' >"$work/try.c"
if ! clang -fsanitize=fuzzer,address "$work/try.c" -o "$work/try" 2>/dev/null; then
    echo "clang with libFuzzer is missing"
    exit 77
fi
make -s -C "$SRC" fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-60}" || fail "a fuzzer found something, or could not be built"
