//! Files as they are given: compressed or not, named in short, of a kind that their content tells.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::blktrace::looks_like_blktrace;
use crate::{Error, Format};

/// Bytes of a file by which its kind is told.
const START: u64 = 1 << 18;
/// Compressed files in compressed files are opened up to this depth.
const MOST_LAYERS: usize = 3;
/// What a compressor may need to know of the past (`xz -9` and `zstd --long=27` need less).
const MOST_MEMORY: u64 = 256 << 20;
/// The same for zstd, as a power of two.
const LOG_MEMORY: u32 = 27;
/// Files of one trace: more than any machine has CPUs and disks.
const MOST_FILES: usize = 1 << 16;

/// One file, open at its start.
pub(crate) struct Input {
    pub(crate) path: String,
    /// What it begins with, uncompressed; still to be read from `content`.
    pub(crate) start: Vec<u8>,
    pub(crate) content: Content,
    /// Size on the disk; 0 where that is not known.
    pub(crate) bytes: u64,
}

/// Where the bytes come from.
pub(crate) enum Content {
    /// A plain file, which can be read twice.
    File(File),
    /// A pipe or a compressed file, which can be read once.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Opens a file; `-` is the standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            let stdin = Content::Stream(Box::new(std::io::stdin()));
            return Self::new("stdin".to_owned(), stdin, 0);
        }
        let name = path.display().to_string();
        let refuse = |source| Error::Read { path: name.clone(), offset: 0, source };
        let file = File::open(path).map_err(refuse)?;
        let facts = file.metadata().map_err(refuse)?;
        if facts.is_dir() {
            return Err(Error::Folder { path: name });
        }
        // What is no regular file, such as a FIFO, cannot be read twice.
        let content =
            if facts.is_file() { Content::File(file) } else { Content::Stream(Box::new(file)) };
        Self::new(name, content, facts.len())
    }

    fn new(path: String, content: Content, bytes: u64) -> Result<Self, Error> {
        let mut input = Self { path, start: Vec::new(), content, bytes };
        input.look()?;
        for _ in 0..MOST_LAYERS {
            if !input.unpack()? {
                break;
            }
        }
        Ok(input)
    }

    /// Reads the start and puts it back.
    fn look(&mut self) -> Result<(), Error> {
        self.start.clear();
        let path = &self.path;
        let refuse = |source| Error::Read { path: path.clone(), offset: 0, source };
        match &mut self.content {
            Content::File(file) => {
                file.by_ref().take(START).read_to_end(&mut self.start).map_err(refuse)?;
                file.seek(SeekFrom::Start(0)).map_err(refuse)?;
            }
            Content::Stream(stream) => {
                let read = stream.by_ref().take(START).read_to_end(&mut self.start);
                let rest = std::mem::replace(stream, Box::new(std::io::empty()));
                let rest: Box<dyn Read + Send> = match read {
                    Ok(_) => rest,
                    Err(source) if self.start.is_empty() => return Err(refuse(source)),
                    // What was unpacked before the damage is not lost.
                    Err(source) => Box::new(Failed(Some(source))),
                };
                *stream = Box::new(Cursor::new(self.start.clone()).chain(rest));
            }
        }
        Ok(())
    }

    /// Opens a compressed file; false when it is not compressed.
    fn unpack(&mut self) -> Result<bool, Error> {
        let path = self.path.clone();
        let refuse = |source| Error::Read { path: path.clone(), offset: 0, source };
        let empty = Content::Stream(Box::new(std::io::empty()));
        let unpacked: Box<dyn Read + Send> = match self.start.as_slice() {
            [0x1f, 0x8b, ..] => {
                let packed = std::mem::replace(&mut self.content, empty).into_reader();
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(packed)))
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let packed = std::mem::replace(&mut self.content, empty).into_reader();
                let mut decoder = zstd::Decoder::new(packed).map_err(refuse)?;
                decoder.window_log_max(LOG_MEMORY).map_err(refuse)?;
                Box::new(decoder)
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                let packed = std::mem::replace(&mut self.content, empty).into_reader();
                let flags = liblzma::stream::CONCATENATED;
                let stream = liblzma::stream::Stream::new_stream_decoder(MOST_MEMORY, flags);
                let stream = stream.map_err(|error| refuse(error.into()))?;
                Box::new(liblzma::read::XzDecoder::new_stream(packed, stream))
            }
            _ => return Ok(false),
        };
        self.content = Content::Stream(unpacked);
        self.look()?;
        Ok(true)
    }

    /// The kind that the content tells.
    pub(crate) fn detect(&self) -> Result<Format, Error> {
        detect(&self.start).map_err(|why| why.into_error(&self.path, &self.start))
    }
}

impl Content {
    /// To be read once, from the start.
    pub(crate) fn into_reader(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Stream(stream) => stream,
        }
    }

    /// To be read more than once; a stream is copied to an unnamed file in `scratch`.
    pub(crate) fn into_file(self, path: &str, scratch: &Path) -> Result<File, Error> {
        let mut stream = match self {
            Self::File(file) => return Ok(file),
            Self::Stream(stream) => stream,
        };
        let refuse = |source| Error::Read { path: path.to_owned(), offset: 0, source };
        let mut file = tempfile::tempfile_in(scratch).map_err(refuse)?;
        std::io::copy(&mut stream, &mut file).map_err(refuse)?;
        file.seek(SeekFrom::Start(0)).map_err(refuse)?;
        Ok(file)
    }
}

/// Nothing but an error, told once.
struct Failed(Option<std::io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The files that a name stands for: itself, or, as blkparse has it, `sda` for `sda.blktrace.0`,
/// `sda.blktrace.1` and so on; one of these stands for all of them. In the order of the CPUs.
pub(crate) fn expand(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let name = path.display().to_string();
    let refuse = |source| Error::Read { path: name.clone(), offset: 0, source };
    let base = base_of(path).unwrap_or_else(|| path.to_owned());
    let is_there = path.exists() || path == Path::new("-");
    if is_there && base == path {
        return Ok(vec![path.to_owned()]);
    }
    let folder = match base.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Err(Error::NotFound { path: name });
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(refuse)?.file_name();
        let candidate = match base.parent() {
            Some(folder) => folder.join(&entry),
            None => PathBuf::from(&entry),
        };
        if base_of(&candidate).as_ref() == Some(&base) && found.len() < MOST_FILES {
            found.push((cpu_of(&candidate), candidate));
        }
    }
    if found.is_empty() {
        return if is_there {
            Ok(vec![path.to_owned()])
        } else {
            Err(Error::NotFound { path: name })
        };
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// `sda` of `sda.blktrace.0`, also when the file is compressed.
pub(crate) fn base_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (base, cpu) = name.rsplit_once(".blktrace.")?;
    let cpu = cpu.split('.').next()?;
    let is_cpu = !cpu.is_empty() && cpu.bytes().all(|digit| digit.is_ascii_digit());
    is_cpu.then(|| path.with_file_name(base))
}

fn cpu_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let (_, cpu) = name.rsplit_once(".blktrace.")?;
    cpu.split('.').next()?.parse().ok()
}

/// Why the kind of a file cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    Empty,
    TraceDat,
    Biosnoop,
    Other,
}

impl Unknown {
    fn into_error(self, path: &str, start: &[u8]) -> Error {
        let path = path.to_owned();
        match self {
            Self::Empty => Error::Empty { path },
            Self::TraceDat => Error::TraceDat { path },
            Self::Biosnoop => Error::Biosnoop { path },
            Self::Other => {
                let shown: String = String::from_utf8_lossy(start.get(..40).unwrap_or(start))
                    .chars()
                    .map(|letter| if letter.is_control() { '.' } else { letter })
                    .collect();
                Error::UnknownFormat { path, start: shown }
            }
        }
    }
}

/// Whether a line is of a kind.
type Fits = fn(&[u8]) -> bool;

fn detect(start: &[u8]) -> Result<Format, Unknown> {
    if start.is_empty() {
        return Err(Unknown::Empty);
    }
    if start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP") {
        return Ok(Format::PerfData);
    }
    if start.starts_with(b"\x17\x08\x44tracing") {
        return Err(Unknown::TraceDat);
    }
    if looks_like_blktrace(start) {
        return Ok(Format::Blktrace);
    }
    // Each line votes; the most votes win, an earlier kind on equal terms.
    let kinds: [(Format, Fits); 3] = [
        (Format::Blkparse, crate::looks_like_blkparse),
        (Format::PerfScript, crate::looks_like_perf_script),
        (Format::Ftrace, crate::looks_like_ftrace),
    ];
    let mut votes = [0_u32; 3];
    let mut is_biosnoop = false;
    for line in start.split(|byte| *byte == b'\n') {
        is_biosnoop |= crate::looks_like_biosnoop(line);
        for ((_, fits), votes) in kinds.iter().zip(&mut votes) {
            *votes += u32::from(fits(line));
        }
    }
    let most = votes.iter().copied().max().unwrap_or_default();
    let winner = kinds.iter().zip(votes).find(|(_, votes)| *votes == most && most > 0);
    match winner {
        Some(((format, _), _)) => Ok(*format),
        None if is_biosnoop => Err(Unknown::Biosnoop),
        None => Err(Unknown::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_told_by_the_content() {
        check(b"PERFILE2", Ok(Format::PerfData));
        check(b"taeb", Err(Unknown::Other));
        check(b"\x07tae\0\0\0\0", Ok(Format::Blktrace));
        check(b"eat\x08\0\0\0\0", Ok(Format::Blktrace));
        check(b"", Err(Unknown::Empty));
        check(b"\x17\x08\x44tracing6\0", Err(Unknown::TraceDat));
        check(b"Hello\nworld\n", Err(Unknown::Other));
        let line = b"  8,0    1       42     0.004512000  1234  D  WS 2048 + 8 [kworker/1:1H]\n";
        check(line, Ok(Format::Blkparse));
        let line = b"fio 123 [001] 12.345678: block:block_rq_issue: 8,0 WS 4096 () 8 + 8 [fio]\n";
        check(line, Ok(Format::PerfScript));
        let line = b"  fio-123 [001] d.h2. 12.345678: block_rq_issue: 8,0 WS 4096 () 8 + 8 [fio]\n";
        check(line, Ok(Format::Ftrace));
    }

    #[test]
    fn a_base_name_stands_for_its_files_in_the_order_of_the_cpus() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["sda.blktrace.10", "sda.blktrace.2.gz", "sdb.blktrace.0", "sda"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let expected = vec![path("sda.blktrace.2.gz"), path("sda.blktrace.10")];
        assert_eq!(expand(&path("sda.blktrace.10")).unwrap(), expected);
        // A file of that very name comes first.
        assert_eq!(expand(&path("sda")).unwrap(), [path("sda")]);
        std::fs::remove_file(path("sda")).unwrap();
        assert_eq!(expand(&path("sda")).unwrap(), expected);
        assert!(matches!(expand(&path("sdc")), Err(Error::NotFound { .. })));
    }

    #[test]
    fn compressed_files_are_read_as_they_are() {
        let text = b"  8,0    1       42     0.004512000  1234  D  WS 2048 + 8 [kworker/1:1H]\n";
        let gz = {
            use std::io::Write;
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let zst = zstd::encode_all(text.as_slice(), 1).unwrap();
        let mut xz = Vec::new();
        liblzma::read::XzEncoder::new(text.as_slice(), 1).read_to_end(&mut xz).unwrap();
        let twice = zstd::encode_all(gz.as_slice(), 1).unwrap();
        for packed in [gz, zst, xz, twice] {
            let content = Content::Stream(Box::new(Cursor::new(packed)));
            let input = Input::new("text".to_owned(), content, 0).unwrap();
            assert_eq!(input.detect().unwrap(), Format::Blkparse);
            let mut read = Vec::new();
            input.content.into_reader().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }

    #[test]
    fn what_was_unpacked_before_the_damage_is_read() {
        let line = b"  8,0    1       42     0.004512000  1234  D  WS 2048 + 8 [kworker/1:1H]\n";
        let text: Vec<u8> = (0..4000_u32)
            .flat_map(|number| {
                [line.as_slice(), &number.wrapping_mul(0x9e37_79b9).to_le_bytes()].concat()
            })
            .collect();
        let mut packed = zstd::encode_all(text.as_slice(), 1).unwrap();
        packed.truncate(packed.len() - 100);
        let content = Content::Stream(Box::new(Cursor::new(packed)));
        let input = Input::new("text".to_owned(), content, 0).unwrap();
        assert_eq!(input.detect().unwrap(), Format::Blkparse);
        let mut read = Vec::new();
        assert!(input.content.into_reader().read_to_end(&mut read).is_err());
        assert!(read.len() > 100_000 && text.starts_with(&read), "{} bytes", read.len());
    }

    #[track_caller]
    fn check(start: &[u8], expected: Result<Format, Unknown>) {
        assert_eq!(detect(start), expected);
    }
}
