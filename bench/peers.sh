# Part of bench/run: what is loaded.  Peers are "broker" (ours, or the one that
# BOOTSTRAP names), "caching" (another of ours, with write.caching), "kafka"
# (with KAFKA=1) and, for one measurement at a time, a floor program.

declare -A address pid
peers=(broker)
ours=()
floor=

build() {
    local flags="-O2 -g -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Werror"
    local libs="-lz -llz4 -lzstd -lsnappy -lpthread"
    local load="load stream txn group zone control member peer net result proc
        wire wire_group wire_txn wire_answer"

    [ -e "$B/libkf.a" ] || make -s -C "$top" B="$B" "$B/libkf.a" >&2

    $cc $flags -o "$work/load" $(printf "$here/%s.c " $load) "$B/libkf.a" $libs
    $cc $flags -o "$work/recv_floor" "$here/floor/recv_floor.c" "$B/libkf.a"
    $cc $flags -o "$work/send_floor" "$here/floor/send_floor.c"
    $cc $flags -o "$work/fsync_probe" "$here"/{fsync_probe,proc}.c -lpthread
}

# start_broker DIR PORT [CONFIG]: one of ours; the pid goes to stdout
start_broker() {
    mkdir -p "$1"
    "$top/tools/broker" start "$1/run" "$1/data" "$2" "$WORKERS" \
        "$CONFIG ${3:-}" | tail -n 1
}

stop() {
    local i

    kill -"${2:-QUIT}" "$1" 2>/dev/null || return 0

    for i in $(seq 200); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.05
    done

    kill -KILL "$1" 2>/dev/null || true
}

start_peers() {
    if [ -n "${BOOTSTRAP:-}" ]; then
        address[broker]=$BOOTSTRAP
        pid[broker]=${BROKER_PID:?of the broker at $BOOTSTRAP}
    else
        : "${BROKER_NGINX:?or BOOTSTRAP and BROKER_PID}" "${BROKER_MODULE:?}"
        export BROKER_NGINX BROKER_MODULE
        address[broker]=127.0.0.1:$port
        pid[broker]=$(start_broker "$work/data/broker" "$port")
        ours=("${pid[broker]}")
    fi

    if [ -n "$KAFKA" ]; then
        say "starting Apache Kafka"
        address[kafka]=127.0.0.1:$kafka_port
        pid[kafka]=$("$here/kafka" "$work/data/kafka" "$kafka_port" \
            "$controller_port")
        peers+=(kafka)
    fi

    for peer in "${peers[@]}"; do
        load ready -a "${address[$peer]}" -s 60 > /dev/null
    done
}

# One with write.caching as a whole, when it is wanted first: an idle one would
# share its memory with the one that is measured.
start_caching() {
    [ -z "${pid[caching]:-}" ] || return 0

    if [ "${#ours[@]}" = 0 ]; then
        address[caching]=${address[broker]}
        pid[caching]=${pid[broker]}
        return 0
    fi

    address[caching]=127.0.0.1:$caching_port
    pid[caching]=$(start_broker "$work/data/caching" "$caching_port" \
        write.caching=true)
    ours+=("${pid[caching]}")
}

leave() {
    local broker

    [ -z "$floor" ] || kill "$floor" 2>/dev/null || true

    for broker in "${ours[@]}"; do
        stop "$broker"
    done

    [ -z "${pid[kafka]:-}" ] || stop "${pid[kafka]}" TERM
    rm -rf "$work/data"
}


load() {
    timeout 300 "$work/load" "$@"
}

# on PEER LABEL MODE ARGUMENTS: loads it.
on() {
    local who=$1 label=$2 mode=$3

    shift 3
    settle

    if [ "$n" -gt 0 ]; then
        load_peer "$@" >> "$OUT"
    else
        warm_up "$@"
    fi
}

load_peer() {
    load "$mode" -a "${address[$who]}" -P "${pid[$who]}" \
        -w "$([ "$who" = kafka ] && echo kafka || echo broker)" -l "$label" "$@"
}

# A JVM takes less and less CPU for a while: until a tenth is not won any more.
warm_up() {
    local cpu last= i

    for i in 1 2 3 4 5 6 7 8; do
        cpu=$(load_peer "$@" | sed -n 's/.*"cpu_us_per_[a-z]*":\([0-9.]*\).*/\1/p')
        [ -n "$cpu" ] || return 0

        if [ -n "$last" ] && awk -v a="$cpu" -v b="$last" \
            'BEGIN { exit a < 0.9 * b }'
        then
            return 0
        fi

        last=$cpu
    done
}

# The same of a floor program: LABEL MODE "PROGRAM FILE [sync]" ARGUMENTS
on_floor() {
    local label=$1 mode=$2 i
    local -a prog

    [ "$n" -gt 0 ] || return 0
    read -ra prog <<< "$3"
    shift 3
    settle
    "$work/${prog[0]}" "$floor_port" "${prog[@]:1}" &
    floor=$!

    for i in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$floor_port") 2>/dev/null && break
        sleep 0.02
    done

    load "$mode" -f -a "127.0.0.1:$floor_port" -P "$floor" -l "$label" "$@" \
        >> "$OUT"

    kill "$floor"
    wait "$floor" 2>/dev/null || true
    floor=
    rm -f "$work/data/floor.log"
}

# topic PEER NAME ARGUMENTS
topic() {
    local who=$1 name=$2

    shift 2
    load create -a "${address[$who]}" -t "$name" "$@"
}

# A topic whose appends need no flush, as the floor's; Kafka's never do.
topic_cached() {
    topic "$@" -o write.caching=true 2>/dev/null || topic "$@"
}

drop() {
    load delete -a "${address[$1]}" -t "$2" || true
}

# What earlier measurements wrote must not be written back during this one.
settle() {
    sync -f "$work/data"
}
