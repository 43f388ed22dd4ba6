//! One event, of which a test says only what matters.

use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Flags, Item, Nanos, Op, Protocol, Remap, SECTOR_BYTES,
    Sector,
};

use crate::DISK;

/// Makes an event. Without more words: CPU 0, sequence 0, `DISK`, a read without a place, thread 1
/// named `test`; error 0 for completions.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct EventBuilder {
    event: Event,
}

impl EventBuilder {
    /// An event at `time` nanoseconds.
    pub fn new(action: Action, time: i64) -> Self {
        let is_completion =
            matches!(action, Action::Complete | Action::BioComplete | Action::CommandComplete);
        let event = Event {
            time: Nanos(time),
            cpu: Cpu(0),
            sequence: 0,
            device: Some(DISK),
            action,
            op: Op::Read,
            flags: Flags::default(),
            sector: None,
            length_bytes: 0,
            pid: 1,
            comm: Comm::new(b"test"),
            error: is_completion.then_some(0),
            remap: None,
            cgroup: None,
            io_priority: None,
            tag: None,
            protocol: None,
        };
        Self { event }
    }

    /// The CPU.
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.event.cpu = Cpu(cpu);
        self
    }

    /// The place in the CPU's stream.
    pub fn sequence(mut self, sequence: u64) -> Self {
        self.event.sequence = sequence;
        self
    }

    /// The device; `None` where the event names none.
    pub fn device(mut self, device: Option<DeviceId>) -> Self {
        self.event.device = device;
        self
    }

    /// The operation and its modifiers.
    pub fn op(mut self, op: Op, flags: Flags) -> Self {
        self.event.op = op;
        self.event.flags = flags;
        self
    }

    /// First sector and number of sectors.
    pub fn sectors(mut self, first: u64, count: u64) -> Self {
        self.event.sector = Some(Sector(first));
        self.event.length_bytes = count * SECTOR_BYTES;
        self
    }

    /// Bytes alone, as passthrough has them.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.event.length_bytes = bytes;
        self
    }

    /// The thread and its name.
    pub fn thread(mut self, pid: u32, comm: &str) -> Self {
        self.event.pid = pid;
        self.event.comm = Comm::new(comm.as_bytes());
        self
    }

    /// A negative errno, or 0.
    pub fn error(mut self, error: i32) -> Self {
        self.event.error = Some(error);
        self
    }

    /// Where a bio came from; of a split, where the rest starts.
    pub fn remap(mut self, device: DeviceId, sector: u64) -> Self {
        self.event.remap = Some(Remap { device, sector: Sector(sector) });
        self
    }

    /// The kernel's io priority word.
    pub fn io_priority(mut self, word: u16) -> Self {
        self.event.io_priority = Some(word);
        self
    }

    /// Tag and protocol of a driver command.
    pub fn command(mut self, tag: u16, protocol: Option<Protocol>) -> Self {
        self.event.tag = Some(tag);
        self.event.protocol = protocol;
        self
    }

    /// The event.
    #[must_use]
    pub fn build(self) -> Event {
        self.event
    }

    /// The event as an item of a stream.
    #[must_use]
    pub fn item(self) -> Item {
        Item::Event(self.event)
    }
}
