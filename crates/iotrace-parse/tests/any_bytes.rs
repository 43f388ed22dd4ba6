//! What holds for every input: no bytes stop the reader, and what is written is read.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use iotrace_model::{Action, Cause, Event, Flags, Item, Ledger, Loss, Op};
use iotrace_parse::{PerfReader, Progress, Reader, Records};
use iotrace_testkit::{EventBuilder, FormatsPlace, Packing, PerfFileBuilder};
use proptest::collection::vec;
use proptest::prelude::*;

use self::support::{Kernel, builder, open, own_times, read, time};

/// What a file holds, in the order of the file.
#[derive(Clone, Debug)]
enum Step {
    Event(EventBuilder),
    Lost(u32, u64),
    Round,
}

fn step() -> impl Strategy<Value = Step> {
    let actions = prop_oneof![
        Just(Action::Queue),
        Just(Action::Get),
        Just(Action::Insert),
        Just(Action::Issue),
        Just(Action::Complete)
    ];
    let ops = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Discard)];
    let flags = prop_oneof![Just(Flags::default()), Just(Flags::SYNC), Just(Flags::META)];
    let event = (actions, ops, flags, 0_u32..4, 1_u64..1 << 40, 1_u64..2048, 1_u32..9).prop_map(
        |(action, op, flags, cpu, sector, sectors, pid)| {
            let has_comm = action != Action::Complete;
            let event =
                EventBuilder::new(action, 0).cpu(cpu).op(op, flags).sectors(sector, sectors);
            Step::Event(event.thread(pid, if has_comm { "fio" } else { "" }))
        },
    );
    prop_oneof![
        12 => event,
        1 => (0_u32..4, 1_u64..100).prop_map(|(cpu, count)| Step::Lost(cpu, count)),
        2 => Just(Step::Round),
    ]
}

/// How a file holds its records.
#[derive(Clone, Copy, Debug)]
struct Shape {
    is_pipe: bool,
    packing: Option<(Packing, usize)>,
}

impl Shape {
    fn shape(self, file: &mut PerfFileBuilder) -> &mut PerfFileBuilder {
        if self.is_pipe {
            file.pipe();
        }
        match self.packing {
            Some((packing, piece)) => file.compress(packing, piece),
            None => file,
        }
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let packing = prop_oneof![Just(Packing::Plain), Just(Packing::Counted)];
    let packing = proptest::option::of((packing, 1_usize..5000));
    (any::<bool>(), packing).prop_map(|(is_pipe, packing)| Shape { is_pipe, packing })
}

/// A reader that gives no more than so many bytes at once.
struct Slow<'a>(Cursor<&'a [u8]>, usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

impl Seek for Slow<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.0.seek(position)
    }
}

/// Puts steps into a file, each ten nanoseconds after the one before; also says what must be read.
fn write(steps: &[Step], place: FormatsPlace) -> (PerfFileBuilder, Vec<Item>) {
    let mut file = builder(Kernel::V6_1);
    file.place(place);
    let mut expected = Vec::new();
    let mut last = [10_i64; 4];
    let mut sequences = [0_u64; 4];
    let mut now = 0_i64;
    for step in steps {
        now += 10;
        match step {
            Step::Event(builder) => {
                let cpu = builder.build().cpu;
                let place = usize::try_from(cpu.0).unwrap();
                let event = Event {
                    time: iotrace_model::Nanos(now),
                    sequence: sequences[place],
                    ..builder.build()
                };
                sequences[place] += 1;
                last[place] = now;
                file.event(&event);
                expected.push(Item::Event(event));
            }
            Step::Lost(cpu, count) => {
                let place = usize::try_from(*cpu).unwrap();
                file.lost(u64::try_from(now).unwrap(), *cpu, *count);
                expected.push(Item::Loss(Loss {
                    cpu: iotrace_model::Cpu(*cpu),
                    from: iotrace_model::Nanos(last[place]),
                    to: iotrace_model::Nanos(now),
                    count: *count,
                }));
                last[place] = now;
            }
            Step::Round => {
                file.round();
            }
        }
    }
    (file, expected)
}

fn events(items: &[Item]) -> Vec<Item> {
    items.iter().copied().filter(|item| matches!(item, Item::Event(_))).collect()
}

/// Whose stream an item is of.
fn cpu(item: &Item) -> u32 {
    match item {
        Item::Event(event) => event.cpu.0,
        Item::Loss(loss) => loss.cpu.0,
    }
}

/// Records that were not used, by the ledger.
fn unused(ledger: &Ledger) -> u64 {
    [Cause::Foreign, Cause::Malformed, Cause::Truncated]
        .into_iter()
        .map(|cause| ledger.count(cause))
        .sum()
}

/// Reads what can be read; nothing may panic, and the books must balance.
fn survive(bytes: &[u8]) -> Vec<Item> {
    let Ok(mut reader) = open(bytes, own_times()) else { return Vec::new() };
    let items = support::drain(&mut reader);
    let Records { read, used } = reader.records();
    assert_eq!(read, used + unused(&reader.take_ledger()));
    items
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..4096)) {
        survive(&bytes);
        survive(&[b"PERFILE2".as_slice(), &bytes].concat());
        survive(&[b"PERFILE2\x10\0\0\0\0\0\0\0".as_slice(), &bytes].concat());
    }

    #[test]
    fn any_records_are_survived(bytes in vec(any::<u8>(), 0..4096), shape in shape()) {
        let mut file = builder(Kernel::V6_18);
        survive(&shape.shape(file.bytes(&bytes)).build());
    }

    #[test]
    fn any_compressed_bytes_are_survived(
        bytes in vec(any::<u8>(), 0..4096),
        is_counted in any::<bool>(),
    ) {
        let mut file = builder(Kernel::V6_18);
        let kind = if is_counted { 83 } else { 81 };
        let frame = [b"\x28\xb5\x2f\xfd".as_slice(), &bytes].concat();
        let size = (bytes.len() as u64).to_le_bytes();
        survive(&file.record(kind, &bytes).record(kind, &frame).build());
        survive(&file.record(83, &[size.as_slice(), &frame].concat()).build());
    }

    #[test]
    fn any_damage_is_survived(
        steps in vec(step(), 1..20),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        in_head in any::<bool>(),
        shape in shape(),
    ) {
        let mut bytes = shape.shape(&mut write(&steps, FormatsPlace::End).0).build();
        let reach = if in_head { 400 } else { bytes.len() };
        for (place, byte) in damage {
            bytes[place.index(reach)] = byte;
        }
        survive(&bytes);
    }

    #[test]
    fn what_is_written_is_read_in_order(steps in vec(step(), 0..200), shape in shape()) {
        let (mut file, expected) = write(&steps, FormatsPlace::End);
        let (items, ledger, records) = read(&shape.shape(&mut file).build());
        prop_assert_eq!(events(&items), events(&expected));
        prop_assert!(items.windows(2).all(|pair| time(&pair[0]) <= time(&pair[1])));
        let lost = |items: &[Item]| {
            let losses = items.iter().filter_map(|item| match item {
                Item::Loss(loss) => Some(loss.count),
                Item::Event(_) => None,
            });
            losses.sum::<u64>()
        };
        prop_assert_eq!(lost(&items), lost(&expected));
        prop_assert_eq!(ledger.count(Cause::KernelLost), lost(&expected));
        let all = steps.len() as u64;
        let read = all + ledger.count(Cause::Foreign);
        prop_assert_eq!(records, Records { read, used: all });
        prop_assert!(shape.is_pipe || read == all);
    }

    #[test]
    fn the_size_of_the_pieces_in_which_a_file_is_read_is_without_effect(
        steps in vec(step(), 1..60),
        piece in 1_usize..300,
        shape in shape(),
    ) {
        let bytes = shape.shape(&mut write(&steps, FormatsPlace::End).0).build();
        let slow = Slow(Cursor::new(&bytes), piece);
        let mut reader = PerfReader::open(slow, "x.data", own_times()).unwrap();
        let mut items = Vec::new();
        while reader.next_batch(&mut items).unwrap() == Progress::More {}
        prop_assert_eq!((items, reader.take_ledger(), reader.records()), read(&bytes));
    }

    #[test]
    fn a_cut_file_holds_a_prefix_of_the_events(
        steps in vec(step(), 1..60),
        cut in any::<prop::sample::Index>(),
        shape in shape(),
    ) {
        for place in [FormatsPlace::Cut, FormatsPlace::BeforeData] {
            let (mut file, expected) = write(&steps, place);
            let mut bytes = shape.shape(&mut file).build();
            let start = usize::try_from(file.data_offset()).unwrap();
            bytes.truncate(start + cut.index(bytes.len() - start + 1));
            let (items, expected) = (events(&survive(&bytes)), events(&expected));
            prop_assert!(expected.starts_with(&items));
        }
    }

    #[test]
    fn the_order_of_the_blocks_of_a_round_is_without_effect(steps in vec(step(), 0..100)) {
        let (file, _) = write(&steps, FormatsPlace::End);
        let ordered = read(&file.build()).0;
        // All of one CPU before all of the next, as rings are emptied.
        let mut by_cpu = builder(Kernel::V6_1);
        for wanted in (0..4).rev() {
            for item in ordered.iter().filter(|item| cpu(item) == wanted) {
                match item {
                    Item::Event(event) => by_cpu.event(event),
                    Item::Loss(loss) => by_cpu.lost(
                        u64::try_from(loss.to.0).unwrap(),
                        loss.cpu.0,
                        loss.count,
                    ),
                };
            }
        }
        prop_assert_eq!(read(&by_cpu.round().build()).0, ordered);
    }
}
