# What the tests with servers not written here share. Sourced; the program is the first argument.
# shellcheck shell=bash disable=SC2034,SC2154

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
program=$(readlink -f "${1:?the program to test}")
# shellcheck source=scripts/lib/scratch.sh
. "$root/scripts/lib/scratch.sh" external
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy

fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 1
}

# Installs the pinned packages into build/external; sets `packages`.
npm_packages() {
  packages=$root/build/external
  mkdir -p "$packages"
  cp "$root"/tests/external/package*.json "$packages"
  (
    flock 9
    cmp -s "$packages/package-lock.json" "$packages/installed" ||
      { cd "$packages" && npm ci --no-audit --no-fund >"$packages/npm.log" 2>&1 &&
        cp package-lock.json installed; }
  ) 9>"$packages/.lock" || { cat "$packages/npm.log" >&2 && fail 'npm could not install the packages'; }
}

# start_server WORDS COMMAND...: starts it with a free port as its last argument (joined to it where
# that ends with a colon) and waits until it has said WORDS, or takes connections. Sets `port`.
start_server() {
  local words=$1 last try i
  shift
  for ((try = 0; try < 20; ++try)); do
    port=$((20000 + RANDOM % 20000))
    last=("$port")
    local command=("$@")
    if [[ ${command[-1]} == *: ]]; then
      command[-1]+=$port
    else
      command+=("$port")
    fi
    : >"$work/server.log"
    "${command[@]}" >"$work/server.log" 2>&1 &
    local pid=$!
    for ((i = 0; i < 200; ++i)); do
      kill -0 "$pid" 2>/dev/null || break
      if { [[ -z $words ]] || grep -qF -- "$words" "$work/server.log"; } &&
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        servers+=("$pid")
        return
      fi
      sleep 0.1
    done
    kill "$pid" 2>/dev/null || true
  done
  cat "$work/server.log" >&2
  fail "$1 did not start"
}

# run EXIT ARGUMENTS...: runs the program with a store of this test.
run() {
  local expected=$1 status=0
  shift
  "$program" "$@" --store "$work/x.db" >"$work/out" 2>"$work/err" || status=$?
  ((status == expected)) || {
    cat "$work/err" >&2
    fail "'sluice $*' ended with $status instead of $expected"
  }
}

# is FIELD VALUE: what `status --json` says of the whole store.
is() {
  local value
  value=$("$program" status --store "$work/x.db" --json | sed -nE "s/.*\"$1\":([^,}]*).*/\1/p")
  [[ $value == "$2" ]] || fail "$1 is $value instead of $2"
}
