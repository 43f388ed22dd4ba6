//! Numbers with a unit or an identity.
//!
//! Times are whole nanoseconds; a sector is always 512 bytes, whatever the device's own block
//! size; a device is `major:minor` as in `include/linux/kdev_t.h`.

use std::{fmt, ops};

/// Bytes in one sector, as the kernel counts them.
pub const SECTOR_BYTES: u64 = 512;

/// A point in time or a duration, in nanoseconds. Points are relative to the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl ops::Sub for Nanos {
    type Output = Nanos;

    /// Saturates at the ends of the range: a hostile trace must not stop the program.
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

/// A position on a device, in units of 512 bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(pub u64);

/// The number of a logical processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

/// A block device, `major:minor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Number of the driver, at most 4095 (12 bits).
    pub major: u32,
    /// Number within the driver, at most 1048575 (20 bits).
    pub minor: u32,
}

impl DeviceId {
    /// Reads the kernel's internal `dev_t`: `major << 20 | minor`.
    pub const fn from_kernel(dev: u32) -> Self {
        Self { major: dev >> 20, minor: dev & 0xf_ffff }
    }

    /// The kernel's internal `dev_t`, as filters of tracepoints compare it.
    pub const fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor
    }

    /// Reads `major:minor`; `None` if the text is anything else or out of range.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        let device = Self { major: major.parse().ok()?, minor: minor.parse().ok()? };
        (device.major < 1 << 12 && device.minor < 1 << 20).then_some(device)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_survives_the_kernel_form() {
        let device = DeviceId { major: 259, minor: 1_048_575 };
        assert_eq!(DeviceId::from_kernel(device.to_kernel()), device);
        assert_eq!(DeviceId::from_kernel(0x0080_0011), DeviceId { major: 8, minor: 17 });
    }

    #[test]
    fn device_text_is_read_strictly() {
        assert_eq!(DeviceId::parse("8:17\n"), Some(DeviceId { major: 8, minor: 17 }));
        assert_eq!(DeviceId::parse("8:"), None);
        assert_eq!(DeviceId::parse("4096:0"), None);
        assert_eq!(DeviceId::parse("0:1048576"), None);
    }
}
