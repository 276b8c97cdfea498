# Part of bench/run: the measurements.  $n is the repetition, 0 that in which
# Kafka's JVM warms up and nobody else is loaded.

want() {
    [[ $1 =~ $ONLY ]] || return 1
    [ "$n" -gt 0 ] || [ -n "$KAFKA" ] || return 1
    say "$1"
}

# Who is loaded in this repetition; caching: with our other broker.
those() {
    if [ "$n" -gt 0 ]; then
        printf '%s\n' "${peers[@]/#broker/${1:-broker}}"
    else
        echo kafka
    fi
}

times() {
    awk -v n="$1" -v s="$SCALE" 'BEGIN { v = n * s; print v < 1 ? 1 : int(v) }'
}

seconds() {
    awk -v n="$1" -v s="$SCALE" 'BEGIN { print n * s }'
}

say() {
    printf '%s  %s\n' "$(date +%T)" "$*" >&2
}


produce() {                             # label batch requests acks [sync]
    local label=$1 t=bench-$1-$n-$$ create=topic_cached who
    local -a at=(-n 2 -d 5 -p 2 -b "$2" -q "$(times "$3")" -k "$4")

    want "$label" || return 0
    [ -z "${5:-}" ] || create=topic

    on_floor "$label" produce "recv_floor $work/data/floor.log ${5:-}" "${at[@]}"

    for who in $(those); do
        $create "$who" "$t" -p 2
        on "$who" "$label" produce "${at[@]}" -t "$t"
        drop "$who" "$t"
    done
}

fetch() {                               # label batch requests
    local label=$1 t=bench-$1-$n-$$ bytes who

    want "$label" || return 0

    for who in $(those); do
        topic_cached "$who" "$t" -p 2
        load produce -a "${address[$who]}" -t "$t" -p 2 -n 2 -d 5 -b "$2" \
            -k 1 -q "$(times "$3")" > "$work/filled"
    done

    # each of the two connections reads one partition, half of the bytes

    bytes=$(sed 's/.*"bytes":\([0-9]*\).*/\1/' "$work/filled")
    head -c $((bytes / 2)) /dev/zero > "$work/data/floor.log"
    on_floor "$label" fetch "send_floor $work/data/floor.log" \
        -n 2 -F $((bytes / 2)) -x "$(times 16)"

    for who in $(those); do
        on "$who" "$label" fetch -t "$t" -p 2 -n 2 -x "$(times 16)"
        drop "$who" "$t"
    done
}

small() {                               # label mode conns arguments
    local label=$1 mode=$2 conns=$3 t=bench-$1-$n-$$ who with=broker

    want "$label" || return 0
    shift 3

    if [[ $label == *-caching ]]; then
        with=caching
        start_caching
    elif [ "$mode" = offset-commit ]; then
        probe "$label" 1
    fi

    if [ "$mode" = produce ]; then
        on_floor "$label" produce "recv_floor $work/data/floor.log" \
            -n "$conns" -b 0 -r 100 -s "$(seconds 3)"
    fi

    for who in $(those $with); do
        topic_cached "$who" "$t" -p 4
        on "$who" "$label" "$mode" -n "$conns" -p 4 -s "$(seconds 3)" -t "$t" \
            "$@"
        drop "$who" "$t"
    done
}

# Flushes of one file, and of one and then of $2 at once.
probe() {                               # label files [pause in us]
    [ "$n" -gt 0 ] || return 0
    "$work/fsync_probe" "$work/data" "$(times 200)" "$2" "${3:-0}" \
        | sed "s/\"test\":\"fdatasync\"/\"test\":\"$1\",\"peer\":\"probe\"/" \
        >> "$OUT"
}

# The probe runs before and after, since a disk's mood changes within seconds,
# and at the same pace.
rate() {                                # label [sync]
    local label=$1 t=bench-$1-$n-$$ create=topic_cached who
    local -a at=(-n 1 -d 64 -b 0 -r 100 -R 1000 -s "$(seconds 5)")

    want "$label" || return 0
    [ -z "${2:-}" ] || create=topic

    probe "$label" 1 1000
    on_floor "$label" produce "recv_floor $work/data/floor.log ${2:-}" "${at[@]}"

    for who in $(those); do
        $create "$who" "$t" -p 1
        on "$who" "$label" produce "${at[@]}" -t "$t"
        drop "$who" "$t"
    done

    probe "$label" 1 1000
}

# Ten records of 100 bytes to each partition in a transaction; the input has
# batches of the same.
txn() {                                 # label producers partitions sync input
    local label=$1 t=bench-$1-$n-$$ with=caching who
    local -a batch=(-b 1100 -r 100)
    local -a at=(-n "$2" -p "$3" -s "$(seconds 3)" "${batch[@]}" -t "$t")

    want "$label" || return 0
    [ -z "$5" ] || at+=(-i "$t-in")

    if [ -n "$4" ]; then
        with=broker
        probe "$label" "$3"
    else
        start_caching
    fi

    for who in $(those $with); do
        topic "$who" "$t" -p "$3"

        if [ -n "$5" ]; then
            topic "$who" "$t-in" -p "$2"
            load produce -a "${address[$who]}" -t "$t-in" -p "$2" -n "$2" \
                -q $((200 * $2)) "${batch[@]}" > /dev/null
        fi

        on "$who" "$label" txn "${at[@]}"

        drop "$who" "$t"
        [ -z "$5" ] || drop "$who" "$t-in"
    done

    [ -z "$4" ] || probe "$label" "$3"
}

group() {                               # label members
    local who

    want "$1" || return 0

    for who in $(those); do
        on "$who" "$1" group -n "$2" -h "$HEARTBEAT"
    done
}

idle() {
    local who

    for who in $(those); do
        if want idle; then
            load tree -P "${pid[$who]}" -w "$who" -l idle -s "$(seconds 5)" \
                >> "$OUT"
        fi

        if want conns-1000; then
            on "$who" conns-1000 idle -n 1000 -s "$(times 3)"
            sleep 1
        fi
    done
}


# ---- with a broker of its own

# Pages that were never used before tell most.
zone() {
    local dir=$work/data/zone

    want zone || return 0
    [ "${#ours[@]}" -gt 0 ] || return 0

    address[fresh]=127.0.0.1:$second_port
    pid[fresh]=$(start_broker "$dir" "$second_port")
    topic fresh zone -p 200
    on fresh zone zone -t zone -p 200 -q "$(times 2048)"
    stop "${pid[fresh]}"
    rm -rf "$dir"
}

# From nginx's start, with the configuration of a start before, until the first
# answer.
start() {
    local t0 conf dir=$work/data/start

    want start || return 0
    [ "${#ours[@]}" -gt 0 ] || return 0

    stop "$(start_broker "$dir" "$second_port")"
    conf=$(ls "$dir"/run/*/nginx.conf)

    for n in $(seq "$REPS"); do
        t0=$EPOCHREALTIME
        "$BROKER_NGINX" -p "$(dirname "$conf")/" -c "$conf" \
            -e "$(dirname "$conf")/error.log" &
        load ready -a 127.0.0.1:$second_port -S "$t0" -s 60 -l start >> "$OUT"
        wait $!
        stop "$(cat "$(dirname "$conf")/nginx.pid")"
    done

    rm -rf "$dir"
}
