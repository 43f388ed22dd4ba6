#!/bin/sh
# The whole life of the virtual machine: load the drivers, record with iotrace and blktrace side
# by side, test that settings come back, hand the results out, switch off.
#
# Facts are lines `key=value` in /out/facts.txt; lines that begin with `vm:` reach the terminal.

/bin/busybox mkdir -p /proc /sys /dev /tmp /out /run /root /var/lib
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin HOME=/root
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/console >/dev/console 2>&1
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs -o size=1400m tmpfs /out
mount -t tmpfs tmpfs /tmp

fact() {
    echo "$1=$2" >>/out/facts.txt
    echo "vm: $1=$2"
}

seconds() { cut -d ' ' -f 1 /proc/uptime; }

# Runs its arguments every fifth of a second until they succeed, for at most $1 seconds.
await() {
    left=$(($1 * 5))
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 0.2
    done
}

finish() {
    fact seconds_at_end "$(seconds)"
    dmesg >/out/dmesg.txt
    sync
    tar -C /out -cf /dev/vda .
    sync
    poweroff -f
}

fact kernel "$(uname -r)"
fact seconds_to_init "$(seconds)"
while read -r module; do
    insmod "/modules/$module" || fact module_failed "$module"
done </modules/list
await 30 test -b /dev/sda || { fact error "no /dev/sda"; finish; }
await 30 test -b /dev/vda || fact error "no /dev/vda"

depth=/sys/block/sda/device/queue_depth
fact seconds_to_disk "$(seconds)"
fact device "$(cat /sys/block/sda/dev)"
fact queue_depth_before "$(cat $depth)"

# 1. Every run is recorded by blktrace too: /bin/traced-job starts and stops it inside the run.
mkdir -p /out/blktrace
iotrace record -o /out/ncq.iotrace --device /dev/sda --ncq on,off --repeat 2 --keep-raw -- \
    /bin/traced-job fio --name=job --filename=/dev/sda --direct=1 --rw=randrw --bs=4k \
    --ioengine=libaio --iodepth=32 --runtime=8 --time_based --randseed=1 \
    --output-format=json >/out/record.stdout 2>/out/record.stderr
fact record_exit $?
fact seconds_to_recorded "$(seconds)"
fact queue_depth_after_record "$(cat $depth)"

# 2. A killed recorder leaves the setting changed; `iotrace restore` puts it back.
is_depth() { [ "$(cat $depth)" = "$1" ]; }
iotrace record -o /out/killed.iotrace --device /dev/sda --ncq off -- sleep 60 \
    >/out/killed.stdout 2>/out/killed.stderr &
recorder=$!
await 40 is_depth 1 || fact error "the recorder did not set the depth to 1"
kill -KILL $recorder
wait $recorder
killall sleep 2>/dev/null
fact queue_depth_after_kill "$(cat $depth)"
iotrace restore >/out/restore.stdout 2>/out/restore.stderr
fact restore_exit $?
fact queue_depth_after_restore "$(cat $depth)"
rm -rf /out/killed.iotrace
finish
