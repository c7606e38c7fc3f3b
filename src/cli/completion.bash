# bash completion of rlx; asks the command itself, so that it always fits.
_rlx() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local program=${COMP_WORDS[0]} table words
  program=${program/#\~/$HOME}
  COMPREPLY=()
  table=$("$program" help completion 2>/dev/null) || return
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=$(cut -d' ' -f1 <<<"$table")
  elif [ "$command" = help ] && [[ $current != -* ]]; then
    words="debug completion $(cut -d' ' -f1 <<<"$table")"
  elif [ "$previous" = --device ]; then
    words="auto $("$program" devices 2>/dev/null | cut -d' ' -f1)"
  elif [ "$previous" = --policy ]; then
    words="allow warn forbid budget="
  elif [[ $current == -* ]]; then
    words=$(grep "^$command " <<<"$table" | cut -d' ' -f2- | tr -d =)
  else
    compopt -o default 2>/dev/null
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _rlx rlx
