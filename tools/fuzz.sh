#!/bin/sh
# Runs the fuzzers of build folder $1 for $2 seconds each, all at the same time, and says how many inputs they ran. Their
# corpora grow in $1/corpus; what they find is in $1/found and makes the exit status 1.
set -eu
cd "$(dirname "$0")/.."
build=$1
seconds=$2
mkdir -p "$build/found"
rm -f "$build"/found/*

seeds() {
    case $1 in
    text) echo "tests/fuzz/corpus/text tests/graphs tests/passes" ;;
    tensor) echo "tests/fuzz/corpus/tensor tests/fuzz/corpus/npy" ;;
    *) echo "tests/fuzz/corpus/$1" ;;
    esac
}

for fuzzer in "$build"/fuzz/fuzz_*; do
    target=${fuzzer##*/fuzz_}
    mkdir -p "$build/corpus/$target"
    # shellcheck disable=SC2046 # word splitting is meant
    "$fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$build/found/$target-" "$build/corpus/$target" $(seeds "$target") >"$build/$target.log" 2>&1 &
done
wait

for fuzzer in "$build"/fuzz/fuzz_*; do
    target=${fuzzer##*/fuzz_}
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
    echo "$target: ${count:-no} inputs"
done
for file in "$build"/found/*; do
    if [ -e "$file" ]; then
        echo "found: $file"
        exit 1
    fi
done
