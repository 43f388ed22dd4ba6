//! A pair of blktrace files, as large as wanted, always the same.
//!
//! What four jobs of fio with a depth of 64 do to a drive with a queue of 32: reads and writes of 4 KiB
//! at random places, of which the scheduler holds most while 32 are in flight. Queue, get, insert and
//! issue on one CPU, completion on either. Layout: `include/uapi/linux/blktrace_api.h`, version 7.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// CPUs, and so files.
const CPUS: usize = 2;
/// Jobs, the bios of all of them under way at once, and those that the drive takes.
const JOBS: u32 = 4;
const QUEUED: usize = 256;
const IN_FLIGHT: usize = 32;

/// One record to be written: time, CPU, action word, sector, thread.
type Record = (u64, usize, u32, u64, u32);

/// Writes `sda.blktrace.0` and `sda.blktrace.1` with five events for each of `requests`.
pub(super) fn blktrace(folder: &Path, requests: u64) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for cpu in 0..CPUS {
        let path = folder.join(format!("sda.blktrace.{cpu}"));
        files.push((BufWriter::with_capacity(1 << 20, File::create(path)?), 0_u32));
    }
    notify(&mut files[0].0, [0, 0], 0x0400_0001, &1_700_000_000_u64.to_le_bytes())?;
    let jobs = (0..JOBS).map(|job| (100 + job, "fio"));
    for (pid, name) in jobs.chain([(57, "kworker/0:1H")]) {
        for (cpu, (file, _)) in (0..).zip(&mut files) {
            let mut payload = [0; 16];
            payload[..name.len()].copy_from_slice(name.as_bytes());
            notify(file, [pid, cpu], 0x0400_0000, &payload)?;
        }
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut pending: BinaryHeap<Reverse<Record>> = BinaryHeap::new();
    // When a place in the jobs' queues, and one in the drive's, becomes free.
    let mut queued: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut in_flight: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut now = 1_000_000_000_000;
    for _ in 0..requests {
        now += 500 + random.below(1000);
        if queued.len() == QUEUED
            && let Some(Reverse(done)) = queued.pop()
        {
            now = now.max(done);
        }
        let cpu = usize::from(random.below(2) == 1);
        let direction = 1 + u32::from(random.below(2) == 1);
        let pid = 100 + u32::try_from(random.below(u64::from(JOBS))).unwrap_or_default();
        let sector = random.below(1 << 27) * 8;
        let mut issue = now + 3000 + random.below(4000);
        if in_flight.len() == IN_FLIGHT
            && let Some(Reverse(done)) = in_flight.pop()
        {
            issue = issue.max(done + 1000);
        }
        let complete = issue + 60_000 + random.below(200_000);
        let other = usize::from(random.below(2) == 1);
        let word = |category: u32, code: u32| (category | direction | 0x0008) << 16 | code;
        pending.push(Reverse((now, cpu, word(0x10, 1), sector, pid)));
        pending.push(Reverse((now + 700, cpu, word(0x10, 4), sector, pid)));
        pending.push(Reverse((now + 1500, cpu, word(0x110, 12), sector, pid)));
        pending.push(Reverse((issue, cpu, word(0x140, 7), sector, 57)));
        pending.push(Reverse((complete, other, word(0x180, 8), sector, 0)));
        queued.push(Reverse(complete + 500));
        in_flight.push(Reverse(complete));
        while let Some(Reverse(record)) = pending.peek().copied().filter(|first| first.0.0 < now) {
            pending.pop();
            write(&mut files, record)?;
        }
    }
    while let Some(Reverse(record)) = pending.pop() {
        write(&mut files, record)?;
    }
    for (mut file, _) in files {
        file.flush()?;
    }
    Ok(())
}

fn write(files: &mut [(BufWriter<File>, u32)], record: Record) -> std::io::Result<()> {
    let (time, cpu, action, sector, pid) = record;
    let Some((file, sequence)) = files.get_mut(cpu) else { return Ok(()) };
    *sequence += 1;
    let cpu = u32::try_from(cpu).unwrap_or_default();
    header(file, [*sequence, 4096, action, pid, cpu], time, sector, 0)
}

fn notify(
    file: &mut impl Write,
    [pid, cpu]: [u32; 2],
    action: u32,
    payload: &[u8],
) -> std::io::Result<()> {
    let length = u16::try_from(payload.len()).unwrap_or_default();
    header(file, [0, 0, action, pid, cpu], 999_999_999_000, 0, length)?;
    file.write_all(payload)
}

fn header(
    file: &mut impl Write,
    [sequence, bytes, action, pid, cpu]: [u32; 5],
    time: u64,
    sector: u64,
    payload: u16,
) -> std::io::Result<()> {
    let mut record = [0; 48];
    record[0..4].copy_from_slice(&0x6561_7407_u32.to_le_bytes());
    record[4..8].copy_from_slice(&sequence.to_le_bytes());
    record[8..16].copy_from_slice(&time.to_le_bytes());
    record[16..24].copy_from_slice(&sector.to_le_bytes());
    record[24..28].copy_from_slice(&bytes.to_le_bytes());
    record[28..32].copy_from_slice(&action.to_le_bytes());
    record[32..36].copy_from_slice(&pid.to_le_bytes());
    record[36..40].copy_from_slice(&(8_u32 << 20).to_le_bytes());
    record[40..44].copy_from_slice(&cpu.to_le_bytes());
    record[46..48].copy_from_slice(&payload.to_le_bytes());
    file.write_all(&record)
}

/// xorshift64*, seeded (Marsaglia 2003; Vigna 2016): the same files on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}
