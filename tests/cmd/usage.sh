#!/bin/bash
# Words that the command does not understand: one line and exit code 2; help; completion fits the table of commands.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"

expect_failure 2 "unknown command 'nope'" "$RLX" nope
expect_failure 2 "unknown command ''" "$RLX" ''
expect_failure 2 "unknown option '--nope'" "$RLX" run --nope model.onnx
expect_failure 2 "unknown option '-x'" "$RLX" run -x model.onnx
expect_failure 2 "unknown option '--dev'" "$RLX" run --dev cpu model.onnx
expect_failure 2 "an argument is missing" "$RLX" run
expect_failure 2 "one argument too many: 'b'" "$RLX" run a b
expect_failure 2 "--device needs a value" "$RLX" run model.onnx --device
expect_failure 2 "--json takes no value" "$RLX" run model.onnx --json=yes
expect_failure 2 "--repeat takes a whole number, not 'x'" "$RLX" run model.onnx --repeat x
expect_failure 2 "--repeat takes 1 to 1000000, not 0" "$RLX" run model.onnx --repeat 0
expect_failure 2 "--threads takes a whole number, not ''" "$RLX" run model.onnx --threads=
expect_failure 2 "--seed takes a whole number" "$RLX" run model.onnx --seed 99999999999999999999999
expect_failure 2 "--policy takes allow, warn, forbid" "$RLX" run model.onnx --policy maybe
expect_failure 2 "budget=TRIPS[,BYTES] takes numbers" "$RLX" run model.onnx --policy budget=
expect_failure 2 "budget=TRIPS[,BYTES] takes numbers" "$RLX" check model.onnx --policy budget=1,x
expect_failure 2 "--policy takes" "$RLX" test . --policy x
expect_failure 2 "--pin takes WHAT=TIER" "$RLX" run model.onnx --pin eval
expect_failure 2 "there is no tier 'fast'" "$RLX" test . --pin '*=fast'
expect_failure 2 "--format takes" "$RLX" explain model.onnx --format pdf
expect_failure 2 "exclude each other" "$RLX" ops --json --markdown
expect_failure 2 "no command or topic 'nope'" "$RLX" help nope

expect_failure 1 "/nonexistent" "$RLX" run /nonexistent
expect_failure 1 "/nonexistent" "$RLX" check /nonexistent
expect_failure 1 "/nonexistent" "$RLX" explain /nonexistent
expect_failure 1 "/nonexistent" "$RLX" bench /nonexistent
expect_failure 1 "/nonexistent" "$RLX" test /nonexistent
expect_failure 1 "/nonexistent" "$RLX" ops --ops /nonexistent.so
expect_failure 1 "no_such_package" "$RLX" ops --ops no_such_package
expect_failure 1 "no device 'abacus'" "$RLX" ops --device abacus
expect_failure 1 "--x" "$RLX" run -- --x
expect_failure 1 "cannot write the output" bash -c '"$RLX" help >/dev/full'

expect 2 "usage: rlx COMMAND" "$RLX"
expect 0 "usage: rlx COMMAND" "$RLX" --help
expect 0 "usage: rlx run [OPTIONS] MODEL" "$RLX" run --help
expect 0 "usage: rlx run [OPTIONS] MODEL" "$RLX" help run
expect 0 "RLX_PACKAGE_PATH" "$RLX" help debug
expect 0 "rlx 0." "$RLX" --version
expect 0 "cpu" "$RLX" devices

# Every command has help, in both forms, and every --json is JSON.
for command in $("$RLX" help completion | cut -d' ' -f1); do
    expect 0 "usage: rlx $command" "$RLX" help "$command"
    "$RLX" help "$command" --json | python3 -m json.tool >/dev/null
    "$RLX" help "$command" | grep -q -- --json || fail "$command has no --json"
done
"$RLX" help --json | python3 -m json.tool >/dev/null
"$RLX" help debug --json | python3 -m json.tool >/dev/null
"$RLX" devices --json | python3 -m json.tool >/dev/null

# Completion, as bash would call it.
# shellcheck disable=SC1091
source "$SRC/src/cli/completion.bash"
complete_words() {
    COMP_WORDS=("$RLX" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _rlx
    echo "${COMPREPLY[*]}"
}
[ "$(complete_words ru)" = run ] || fail "completion of 'ru': $(complete_words ru)"
[ "$(complete_words run --dev)" = --device ] || fail "completion of 'run --dev': $(complete_words run --dev)"
[[ " $(complete_words run --device '') " == *" cpu "* ]] || fail "completion of --device: $(complete_words run --device '')"
[[ $(complete_words help '') == *debug*run* ]] || fail "completion of help: $(complete_words help '')"
[ "$(complete_words run --policy f)" = forbid ] || fail "completion of --policy"
