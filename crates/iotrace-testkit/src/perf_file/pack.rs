//! Records as `perf record -z` compresses them: what comes from the rings is one zstd stream, cut
//! into compressed records; it is flushed before every record that perf itself writes.

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use super::{Packing, put_record};

/// Records of this kind and above are perf's own.
const FIRST_OF_PERF: u32 = 64;

/// Compresses what of `data` comes from the rings; bytes behind the last whole record too.
pub(super) fn pack(data: &[u8], packing: Packing, piece: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(1).expect("zstd has memory");
    let (mut out, mut run, mut rest) = (Vec::new(), 0..0, data);
    while let Some((kind, size)) = record(rest) {
        rest = &rest[size..];
        if kind < FIRST_OF_PERF {
            run.end += size;
            continue;
        }
        put_pieces(&mut out, &flushed(&mut encoder, &data[run.clone()]), packing, piece);
        out.extend(&data[run.end..run.end + size]);
        run = run.end + size..run.end + size;
    }
    put_pieces(&mut out, &flushed(&mut encoder, &data[run.start..]), packing, piece);
    out
}

/// Kind and size of the record at the start; `None` when there is none.
fn record(bytes: &[u8]) -> Option<(u32, usize)> {
    let kind = u32::from_le_bytes(*bytes.first_chunk()?);
    let size = usize::from(u16::from_le_bytes(*bytes.get(6..)?.first_chunk()?));
    (size >= 8 && size <= bytes.len()).then_some((kind, size))
}

fn flushed(encoder: &mut Encoder<'_>, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if bytes.is_empty() {
        return out;
    }
    let (mut input, mut room) = (InBuffer::around(bytes), vec![0; 1 << 16]);
    loop {
        let mut output = OutBuffer::around(room.as_mut_slice());
        let left = if input.pos() < bytes.len() {
            encoder.run(&mut input, &mut output).expect("zstd compresses anything");
            1
        } else {
            encoder.flush(&mut output).expect("zstd compresses anything")
        };
        out.extend(output.as_slice());
        if left == 0 {
            return out;
        }
    }
}

fn put_pieces(out: &mut Vec<u8>, packed: &[u8], packing: Packing, piece: usize) {
    for piece in packed.chunks(piece) {
        match packing {
            Packing::Plain => put_record(out, 81, piece),
            Packing::Counted => {
                let mut body = (piece.len() as u64).to_le_bytes().to_vec();
                body.extend(piece);
                body.resize(body.len().next_multiple_of(8), 0);
                put_record(out, 83, &body);
            }
        }
    }
}
