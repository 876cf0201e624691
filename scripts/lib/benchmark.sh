# What the benchmarks share: a static server to run against, documents, medians. Sourced after
# common.sh. They print figures and never fail on time: a busy machine is not a mistake.
# shellcheck shell=bash disable=SC2034,SC2154

[[ -n ${SLUICE_NO_SETUP:-} ]] || "$root/scripts/setup" --benchmark
"$root/scripts/sluice" --version >/dev/null || die 'the program could not be built or started'
program=$root/build/release/app/sluice

# shellcheck source=scripts/lib/scratch.sh
. "$root/scripts/lib/scratch.sh" benchmark

answer='{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"invoice"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":1,"total_tokens":13}}'

# Starts nginx with one worker that gives everyone the same answer; sets `port`. Arrivals are
# written to $work/arrivals, as seconds since the epoch, if `log_arrivals` is set.
log_arrivals=''
start_nginx() {
  local log='off'
  [[ -z $log_arrivals ]] || log="$work/arrivals arrival"
  for _ in {1..20}; do
    port=$((20000 + RANDOM % 20000))
    cat >"$work/nginx.conf" <<CONF
daemon off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log error;
events { worker_connections 4096; }
http {
  log_format arrival '\$msec';
  access_log $log;
  default_type application/json;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  client_body_temp_path $work/body;
  proxy_temp_path $work/proxy;
  fastcgi_temp_path $work/fastcgi;
  uwsgi_temp_path $work/uwsgi;
  scgi_temp_path $work/scgi;
  server {
    listen 127.0.0.1:$port backlog=4096;
    location / { return 200 '$answer'; }
  }
}
CONF
    nginx -p "$work" -c "$work/nginx.conf" -e "$work/nginx.log" 2>/dev/null &
    local pid=$!
    for ((; ;)); do
      kill -0 "$pid" 2>/dev/null || break
      if [[ -s $work/nginx.pid ]] && curl -sf -o /dev/null "http://127.0.0.1:$port/warm-up"; then
        servers+=("$pid")
        [[ ! -e $work/arrivals ]] || : >"$work/arrivals"
        return
      fi
      sleep 0.05
    done
  done
  cat "$work/nginx.log" >&2
  die 'nginx did not start; its words are above'
}

# make_documents COUNT FILE
make_documents() {
  awk -v count="$1" 'BEGIN {
    for (i = 1; i <= count; ++i)
      printf "{\"id\":\"doc-%07d\",\"text\":\"Letter %07d: please find enclosed our invoice.\"}\n", i, i
  }' >"$2"
}

# Runs a program and sets wall, cpu (seconds) and peak (MiB) to what it took. A run that does not end
# with 0 has measured something else, and ends the benchmark.
measure() {
  local user system kilobytes status=0
  /usr/bin/time -q -f '%e %U %S %M' -o "$work/time" "$@" >"$work/out" 2>"$work/err" || status=$?
  if ((status != 0)); then
    tail -n 20 "$work/err" >&2
    die "'$*' ended with $status; its last words are above"
  fi
  read -r wall user system kilobytes <"$work/time"
  cpu=$(awk -v u="$user" -v s="$system" 'BEGIN { print u + s }')
  peak=$(awk -v k="$kilobytes" 'BEGIN { printf "%.1f", k / 1024 }')
}

median() {
  printf '%s\n' "$@" | sort -g |
    awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# calculate 'AWK EXPRESSION' [printf format]
calculate() { awk "BEGIN { printf \"${2:-%.2f}\", $1 }"; }
