# Sourced by the tests of the command: expect CODE TEXT COMMAND… runs a command and looks at its exit code and output.

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# TEXT is a fixed string that stdout or stderr must contain; "" asks for nothing.
expect() {
    local code=$1 text=$2 output status=0
    shift 2
    output=$("$@" 2>&1) || status=$?
    if [ "$status" -ne "$code" ]; then
        fail "exit code $status instead of $code: $*"$'\n'"$output"
    fi
    if [ -n "$text" ] && ! grep -qF -- "$text" <<<"$output"; then
        fail "no '$text' in the output of: $*"$'\n'"$output"
    fi
}

# A failure: exit code CODE and exactly one line, which begins with "rlx: " and contains TEXT.
expect_failure() {
    local code=$1 text=$2 output status=0
    shift 2
    output=$("$@" 2>&1 >/dev/null) || status=$?
    [ "$status" -eq "$code" ] || fail "exit code $status instead of $code: $*"$'\n'"$output"
    [ "$(wc -l <<<"$output")" -eq 1 ] || fail "more than one line on stderr: $*"$'\n'"$output"
    [[ $output == "rlx: "* ]] || fail "the line does not begin with 'rlx: ': $output"
    grep -qF -- "$text" <<<"$output" || fail "no '$text' in: $output"
}
