//! The kernel's list of tracepoints: where it is mounted, and what each event looks like.
//!
//! An event is a folder `events/SYSTEM/NAME` with a text `format` that gives its number and the
//! place of each field (`Documentation/trace/events.rst` of the kernel). The text is kept as it
//! is, because perf files carry it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, sys};

/// Where tracefs is by custom; the second place needs debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A mounted tracefs. If it had to be mounted for us, it is unmounted on drop.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    /// Kept only to be dropped.
    _mount: Option<sys::Mount>,
}

/// One tracepoint of the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    /// The folder it is in, such as `block`.
    pub(crate) system: String,
    /// Its name within the folder.
    pub(crate) name: String,
    /// Its number, which is also `common_type` in its records.
    pub(crate) id: u64,
    /// The text of its `format` file.
    pub(crate) format: String,
}

impl Tracefs {
    /// Finds tracefs, or mounts it.
    pub(crate) fn open() -> Result<Tracefs, Error> {
        for root in PLACES.map(PathBuf::from) {
            match fs::read_dir(root.join("events")) {
                Ok(_) => return Ok(Tracefs { root, _mount: None }),
                Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(not_permitted(source));
                }
                Err(_) => {}
            }
        }
        let (root, mount) = sys::mount_tracefs(Path::new(PLACES[0])).map_err(no_tracefs)?;
        Ok(Tracefs { root, _mount: Some(mount) })
    }

    /// The folder that holds the events.
    pub(crate) fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// One event; `None` if this kernel does not have it.
    pub(crate) fn event(&self, system: &str, name: &str) -> Result<Option<TraceEvent>, Error> {
        let path = self.events().join(system).join(name).join("format");
        let format = match fs::read_to_string(&path) {
            Ok(format) => format,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(not_permitted(source));
            }
            Err(source) => return Err(Error::Read { path, source }),
        };
        match TraceEvent::parse(system, name, format) {
            Some(event) => Ok(Some(event)),
            None => Err(Error::Unexpected { path, expected: "a line `ID: number`" }),
        }
    }

    /// The text `events/NAME` that describes the frame of all events, such as `header_page`.
    pub(crate) fn header(&self, name: &str) -> Result<String, Error> {
        let path = self.events().join(name);
        fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
    }
}

impl TraceEvent {
    /// Reads the text of a `format` file; `None` if it gives no number.
    pub(crate) fn parse(system: &str, name: &str, format: String) -> Option<TraceEvent> {
        let id = format.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(TraceEvent { system: system.to_owned(), name: name.to_owned(), id, format })
    }

    /// `system/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.system, self.name)
    }

    /// Offset of a field in the event's data; `None` if it has no such field.
    pub(crate) fn field_offset(&self, field: &str) -> Option<usize> {
        self.format.lines().find_map(|line| {
            let (declaration, places) = line.trim().strip_prefix("field:")?.split_once(';')?;
            let name = declaration.rsplit(' ').next()?.split('[').next()?;
            (name == field).then_some(())?;
            places.trim().strip_prefix("offset:")?.split(';').next()?.parse().ok()
        })
    }
}

/// The error for a refusal, with the setting that decides about it.
pub(crate) fn not_permitted(source: io::Error) -> Error {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    Error::NotPermitted { paranoid, source }
}

fn no_tracefs(source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::PermissionDenied {
        return not_permitted(source);
    }
    Error::NoTracefs { source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n";

    #[test]
    fn number_and_fields_are_read_from_the_format() {
        let event = TraceEvent::parse("block", "block_rq_issue", FORMAT.to_owned()).unwrap();
        assert_eq!((event.id, event.full_name().as_str()), (2104, "block/block_rq_issue"));
        check(&event, "dev", Some(8));
        check(&event, "sector", Some(16));
        check(&event, "rwbs", Some(34));
        check(&event, "cmd", Some(60));
        check(&event, "old_dev", None);
    }

    #[test]
    fn a_format_without_a_number_is_refused() {
        assert_eq!(TraceEvent::parse("block", "x", "name: x\n".to_owned()), None);
        assert_eq!(TraceEvent::parse("block", "x", "ID: many\n".to_owned()), None);
    }

    #[track_caller]
    fn check(event: &TraceEvent, field: &str, expected: Option<usize>) {
        assert_eq!(event.field_offset(field), expected, "{field}");
    }
}
