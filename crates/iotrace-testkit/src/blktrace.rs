//! Bytes of blktrace files, record by record.

/// Builds a stream of version 7, little-endian, of one device and CPU.
#[derive(Clone, Debug)]
pub struct BlktraceBuilder {
    bytes: Vec<u8>,
    sequence: u32,
    device: u32,
    cpu: u32,
    pid: u32,
    error: u16,
}

impl Default for BlktraceBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BlktraceBuilder {
    /// Nothing yet: device 8:0, CPU 0, thread 100, the next sequence number is 1.
    pub fn new() -> Self {
        Self { bytes: Vec::new(), sequence: 1, device: 8 << 20, cpu: 0, pid: 100, error: 0 }
    }

    /// The CPU of what follows.
    #[must_use]
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.cpu = cpu;
        self
    }

    /// The thread of what follows.
    #[must_use]
    pub fn pid(mut self, pid: u32) -> Self {
        self.pid = pid;
        self
    }

    /// The device of what follows.
    #[must_use]
    pub fn device(mut self, major: u32, minor: u32) -> Self {
        self.device = major << 20 | minor;
        self
    }

    /// The next sequence number.
    #[must_use]
    pub fn sequence(mut self, sequence: u32) -> Self {
        self.sequence = sequence;
        self
    }

    /// The error of the next record, as the kernel stores it.
    #[must_use]
    pub fn error(mut self, error: u16) -> Self {
        self.error = error;
        self
    }

    /// A record with the action's word, categories in the high half.
    #[must_use]
    pub fn record(mut self, time: u64, action: u32, sector: u64, bytes: u32, pdu: &[u8]) -> Self {
        let is_notify = action & 0x0400_0000 != 0;
        let sequence = if is_notify { 0 } else { self.sequence };
        let out = &mut self.bytes;
        out.extend(0x6561_7407_u32.to_le_bytes());
        out.extend(sequence.to_le_bytes());
        out.extend(time.to_le_bytes());
        out.extend(sector.to_le_bytes());
        for word in [bytes, action, self.pid, self.device, self.cpu] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.error.to_le_bytes());
        out.extend(u16::try_from(pdu.len()).expect("a test's payload is short").to_le_bytes());
        out.extend(pdu);
        self.error = 0;
        self.sequence = self.sequence.wrapping_add(u32::from(!is_notify));
        self
    }

    /// A write is queued; lengths in sectors.
    #[must_use]
    pub fn queue(self, time: u64, sector: u64, sectors: u32) -> Self {
        self.record(time, 0x0012_0001, sector, sectors * 512, &[])
    }

    /// A write goes to the driver.
    #[must_use]
    pub fn issue(self, time: u64, sector: u64, sectors: u32) -> Self {
        self.record(time, 0x0142_0007, sector, sectors * 512, &[])
    }

    /// A write completes.
    #[must_use]
    pub fn complete(self, time: u64, sector: u64, sectors: u32) -> Self {
        self.record(time, 0x0182_0008, sector, sectors * 512, &[])
    }

    /// The name of the current thread.
    #[must_use]
    pub fn process(self, time: u64, name: &str) -> Self {
        let mut payload = [0; 16];
        payload[..name.len()].copy_from_slice(name.as_bytes());
        self.record(time, 0x0400_0000, 0, 0, &payload)
    }

    /// The wall clock at a time.
    #[must_use]
    pub fn timestamp(self, time: u64, seconds: u32, nanoseconds: u32) -> Self {
        let payload = [seconds.to_le_bytes(), nanoseconds.to_le_bytes()].concat();
        self.record(time, 0x0400_0001, 0, 0, &payload)
    }

    /// The bytes.
    pub fn build(self) -> Vec<u8> {
        self.bytes
    }
}
