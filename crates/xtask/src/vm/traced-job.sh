#!/bin/sh
# The workload of a recorded run: its arguments, with blktrace recording from before their first
# request to after their last. The first line of output tells the run's number.

number=$(ls /out/blktrace | wc -l)
folder=/out/blktrace/$number
mkdir "$folder"
echo "blktrace=$number"

blktrace -d /dev/sda -b 1024 -n 8 -D "$folder" -o trace >"$folder/blktrace.txt" 2>&1 &
tracer=$!
left=150
until [ -e /sys/kernel/debug/block/sda/trace1 ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "blktrace does not start" >&2; exit 1; }
    sleep 0.2
done
# The buffers are there; the start of the trace follows them at once and shows nowhere.
sleep 2

"$@" >"$folder/job.txt" 2>&1
status=$?
kill -INT $tracer
wait $tracer
exit $status
