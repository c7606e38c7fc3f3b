#!/bin/bash
# The rules of the source tree: include order, lengths, exported symbols, licences, paths named in the documents.
set -euo pipefail
cd "$SRC"
python3 tools/source_rules.py
[ -n "${SANITIZE:-}" ] || python3 tools/abi.py symbols "$BUILD/librlx.so"

status=0
for document in README.md docs/*.md; do
    for path in $(grep -oE '(^|[^A-Za-z0-9_/.-])(src|include|tests|tools|docs|packages|examples|bench|cmake)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' "$document" | sed 's/^[^a-z]//' | sort -u); do
        [[ $path =~ (/X\.|_$) ]] && continue # stands for any file
        [ -e "$path" ] || { echo "$document names $path, which does not exist"; status=1; }
    done
done
exit $status
