# What the scripts share. Sourced, never run. Expects `root` to be the project's folder.
# shellcheck shell=bash disable=SC2034,SC2154

# Says what is wrong and what to do about it, and ends the script.
die() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}

note() { printf '%s\n' "$*" >&2; }

# Compilers at once: one per processor, but none without some 1.2 GB of memory to work in.
build_jobs() {
  local processors memory
  processors=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1200000) }' /proc/meminfo 2>/dev/null || echo 0)
  ((memory >= 1)) || memory=1
  echo $((processors < memory ? processors : memory))
}

# A precompiled header is built from pragmas and macros that ccache does not look at by default.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

# g++ 12's sanitizer runtime cannot map its shadow memory where the kernel spreads addresses over
# more than 28 bits. Such programs are then run without the spreading, if the system lets us.
fixed_addresses=()
if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28) > 28)) &&
  setarch "$(uname -m)" -R true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" -R)
fi

# The project's own files, tracked or new, NUL-separated, among the given patterns. The clone may
# belong to somebody else than whoever checks it, as in a container.
own_files() {
  git -c safe.directory='*' -C "$root" ls-files -z --cached --others --exclude-standard -- "$@"
}
