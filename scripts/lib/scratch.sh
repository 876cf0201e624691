# A folder of its own and servers that end with the script, for benchmarks and external tests; and
# nobody's settings but those on the command lines. Sourced, with a name for the folder.
# shellcheck shell=bash disable=SC2034

while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(SLUICE|OPENAI)_')

work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-$1.XXXXXX")
servers=() # process IDs
clean_up() {
  local pid
  for pid in "${servers[@]}"; do
    kill "$pid" 2>/dev/null || continue
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
