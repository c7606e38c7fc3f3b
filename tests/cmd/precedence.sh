#!/bin/bash
# The examples of docs/PRECEDENCE.md print what the page says. With UPDATE=1 the page is written anew: look at it.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$SRC/docs/PRECEDENCE.md
ln -s "$RLX" "$work/rlx"
export PATH=$work:$PATH RLX_PACKAGE_PATH=$BUILD/packages
unset RLX_DEBUG RLX_FALLBACK
cd "$work"

# Runs the page: models are written, commands of console blocks run, what they print put in the place of what stands there.
run_page() {
    local mode=text line file
    while IFS= read -r line; do
        case "$mode:$line" in
        text:'```rlx '*) mode=model file=${line#*rlx } && : >"$file" && echo "$line" ;;
        text:'```console') mode=console && echo "$line" ;;
        *:'```') mode=text && echo "$line" ;;
        model:*) echo "$line" | tee -a "$file" ;;
        console:'$ '*) echo "$line" && { bash -c "${line#'$ '}" 2>&1 || true; } | sed 's/ *$//' ;;
        console:*) ;;
        *) echo "$line" ;;
        esac
    done <"$page"
}
run_page >page.md
if [ -n "${UPDATE:-}" ]; then cp page.md "$page"; fi
diff "$page" page.md || fail "docs/PRECEDENCE.md says something else than the command"
