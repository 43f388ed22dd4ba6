//! One column of one row group: its pages as they are encoded and compressed, then its bytes.
//!
//! A column of codes gets a dictionary. A column of numbers is stored in the way that makes a
//! sample of its first page smallest, and stays so until the row group ends: times climb in small
//! steps and are best as differences; a sector comes back several times, which the compressor
//! sees best when it stands there plainly. Stretches of nulls cost one run.

use bytes::Bytes;
use parquet::basic::{
    Compression, Encoding, LogicalType, PageType, Type as PhysicalType, ZstdLevel,
};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use crate::cells::{Cells, Stored};
use crate::encode::{self, Widths};

/// Level of the compressor. Higher ones cost twice the time for a tenth of the size.
const LEVEL: i32 = 1;
/// Values on which the ways to store a column are tried.
const SAMPLE: usize = 1 << 12;

/// A compressor and the buffers around it, used again for every page.
pub(crate) struct Codec {
    compressor: Compressor<'static>,
    raw: Vec<u8>,
    compressed: Vec<u8>,
}

impl Codec {
    pub(crate) fn new() -> Result<Self> {
        let compressor = Compressor::new(LEVEL)?;
        Ok(Self { compressor, raw: Vec::new(), compressed: Vec::new() })
    }

    /// Compresses what is in `raw`; the result stays until the next call.
    fn compress(&mut self) -> Result<&[u8]> {
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        self.compressor.compress_to_buffer(&self.raw, &mut self.compressed)?;
        Ok(&self.compressed)
    }
}

/// A column chunk under construction.
pub(crate) struct Chunk {
    column: ColumnDescPtr,
    is_coded: bool,
    is_signed: bool,
    parts: Vec<Part>,
    way: Option<Way>,
    rows: usize,
    nulls: usize,
    /// Smallest and largest number.
    bounds: Option<(u64, u64)>,
}

/// What a chunk is made of.
enum Part {
    /// So many rows without a value.
    Nulls(usize),
    Page(Packed),
}

/// An encoded and compressed page.
struct Packed {
    encoding: Encoding,
    /// Values and nulls.
    cells: usize,
    /// Bytes before they were compressed.
    raw: usize,
    bytes: Vec<u8>,
}

/// A way to store numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Delta(Widths),
    Plain,
}

impl Way {
    /// In the order of preference where sizes are equal.
    const ALL: [Way; 3] = [Way::Delta(Widths::Tight), Way::Delta(Widths::Bytes), Way::Plain];

    fn encode(self, values: &[u64], out: &mut Vec<u8>) {
        match self {
            Way::Delta(widths) => encode::delta(values, widths, out),
            Way::Plain => encode::plain(values, out),
        }
    }

    fn encoding(self) -> Encoding {
        match self {
            Way::Delta(_) => Encoding::DELTA_BINARY_PACKED,
            Way::Plain => Encoding::PLAIN,
        }
    }

    /// The way that makes a sample smallest.
    fn best(values: &[u64], codec: &mut Codec) -> Result<Way> {
        let sample = &values[..values.len().min(SAMPLE)];
        let mut best = (usize::MAX, Way::Plain);
        for way in Way::ALL {
            codec.raw.clear();
            way.encode(sample, &mut codec.raw);
            let size = codec.compress()?.len();
            if size < best.0 {
                best = (size, way);
            }
        }
        Ok(best.1)
    }
}

impl Chunk {
    /// An empty chunk of a column that holds codes or numbers.
    pub(crate) fn new(column: ColumnDescPtr, is_coded: bool) -> Self {
        let is_signed = !matches!(
            column.logical_type_ref(),
            Some(LogicalType::Integer(integer)) if !integer.is_signed
        );
        Self {
            column,
            is_coded,
            is_signed,
            parts: Vec::new(),
            way: None,
            rows: 0,
            nulls: 0,
            bounds: None,
        }
    }

    /// Adds a page of so many rows.
    pub(crate) fn add(&mut self, cells: &Cells, rows: usize, codec: &mut Codec) -> Result<()> {
        self.rows += rows;
        let values = cells.codes.len().max(cells.numbers.len());
        if values == 0 {
            self.nulls += rows;
            match self.parts.last_mut() {
                Some(Part::Nulls(before)) => *before += rows,
                Some(Part::Page(_)) | None => self.parts.push(Part::Nulls(rows)),
            }
            return Ok(());
        }
        let way = match self.way {
            None if !self.is_coded => Some(Way::best(&cells.numbers, codec)?),
            known => known,
        };
        self.way = way;
        codec.raw.clear();
        let nulls = self.levels(cells, rows, values, &mut codec.raw);
        self.nulls += nulls;
        let encoding = if let Some(way) = way {
            way.encode(&cells.numbers, &mut codec.raw);
            self.widen_bounds(&cells.numbers);
            way.encoding()
        } else {
            codes(&cells.codes, &mut codec.raw);
            Encoding::RLE_DICTIONARY
        };
        let (raw, bytes) = (codec.raw.len(), codec.compress()?.to_vec());
        self.parts.push(Part::Page(Packed { encoding, cells: values + nulls, raw, bytes }));
        Ok(())
    }

    /// Repetition and definition levels, as far as the column has them, each behind its length.
    /// Returns the number of nulls.
    fn levels(&self, cells: &Cells, rows: usize, values: usize, out: &mut Vec<u8>) -> usize {
        if self.column.max_rep_level() > 0 {
            return list_levels(&cells.lengths, self.column.max_def_level(), out);
        }
        if self.column.max_def_level() > 0 {
            behind_length(out, |out| {
                if values == rows {
                    encode::repeat(1, rows, 1, out);
                } else {
                    encode::hybrid(&cells.present, 1, out);
                }
            });
        }
        rows - values
    }

    fn widen_bounds(&mut self, numbers: &[u64]) {
        let of = |least: u64, most: u64| {
            if self.is_signed {
                let (mut low, mut high) = (i64::MAX, i64::MIN);
                for number in numbers {
                    low = low.min(number.cast_signed());
                    high = high.max(number.cast_signed());
                }
                let (least, most) = (least.cast_signed(), most.cast_signed());
                (low.min(least).cast_unsigned(), high.max(most).cast_unsigned())
            } else {
                let (mut low, mut high) = (least, most);
                for number in numbers {
                    low = low.min(*number);
                    high = high.max(*number);
                }
                (low, high)
            }
        };
        if let Some((least, most)) = self.bounds.or_else(|| numbers.first().map(|n| (*n, *n))) {
            self.bounds = Some(of(least, most));
        }
    }

    /// The bytes of the chunk and what its row group has to know of it; the chunk is empty
    /// again. `dictionary` holds the values of the codes.
    pub(crate) fn finish(
        &mut self,
        dictionary: &[Stored],
        codec: &mut Codec,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut uncompressed = 0;
        let mut write = |page, raw| -> Result<usize> {
            let spec = pages.write_page(CompressedPage::new(page, raw))?;
            uncompressed += spec.uncompressed_size;
            Ok(spec.compressed_size)
        };
        let mut kinds = Vec::new();
        let mut data_start = 0;
        if !dictionary.is_empty() {
            codec.raw.clear();
            for value in dictionary {
                append_plain(value, &mut codec.raw);
            }
            let page = Page::DictionaryPage {
                buf: Bytes::copy_from_slice(codec.compress()?),
                num_values: count(dictionary.len())?,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            data_start = write(page, codec.raw.len())?;
            kinds.push((PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
        }
        let nulls_encoding = match self.way {
            Some(way) => way.encoding(),
            None if dictionary.is_empty() => Encoding::PLAIN,
            None => Encoding::RLE_DICTIONARY,
        };
        let mut cells = 0;
        for part in self.parts.drain(..) {
            let packed = match part {
                Part::Page(packed) => packed,
                Part::Nulls(rows) => nulls_page(&self.column, rows, nulls_encoding, codec)?,
            };
            let Packed { encoding, cells: in_page, raw, bytes } = packed;
            cells += in_page;
            let page = Page::DataPage {
                buf: bytes.into(),
                num_values: count(in_page)?,
                encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            write(page, raw)?;
            match kinds.last_mut() {
                Some((PageType::DATA_PAGE, last, pages)) if *last == encoding => *pages += 1,
                _ => kinds.push((PageType::DATA_PAGE, encoding, 1)),
            }
        }
        let bytes = Bytes::from(sink.into_inner()?);
        let mut encodings: Vec<_> = kinds.iter().map(|(_, encoding, _)| *encoding).collect();
        encodings.push(Encoding::RLE);
        let stats = kinds
            .into_iter()
            .map(|(page_type, encoding, count)| PageEncodingStats { page_type, encoding, count })
            .collect();
        let offset = |bytes: usize| i64::try_from(bytes).map_err(too_large);
        let metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings(encodings)
            .set_page_encoding_stats(stats)
            .set_total_compressed_size(offset(bytes.len())?)
            .set_total_uncompressed_size(offset(uncompressed)?)
            .set_num_values(offset(cells)?)
            .set_dictionary_page_offset((data_start > 0).then_some(0))
            .set_data_page_offset(offset(data_start)?)
            .set_statistics(self.statistics(dictionary))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        *self = Chunk::new(self.column.clone(), self.is_coded);
        Ok((bytes, close))
    }

    /// Smallest and largest value, and the number of nulls.
    fn statistics(&self, dictionary: &[Stored]) -> Statistics {
        let nulls = Some(self.nulls as u64);
        let number = |(least, most): (u64, u64)| (Stored::Large(least), Stored::Large(most));
        let bounds = self
            .bounds
            .map(number)
            .or_else(|| dictionary.iter().min().cloned().zip(dictionary.iter().max().cloned()));
        let (least, most) = bounds.unzip();
        match self.column.physical_type() {
            PhysicalType::INT32 => {
                let number = |value: Stored| match value {
                    Stored::Signed(number) => Some(number),
                    Stored::Small(number) => Some(number.cast_signed()),
                    Stored::Large(_) | Stored::Text(_) => None,
                };
                let (least, most) = (least.and_then(number), most.and_then(number));
                Statistics::Int32(ValueStatistics::new(least, most, None, nulls, false))
            }
            PhysicalType::INT64 => {
                let number = |value: Stored| match value {
                    Stored::Large(number) => Some(number.cast_signed()),
                    Stored::Signed(_) | Stored::Small(_) | Stored::Text(_) => None,
                };
                let (least, most) = (least.and_then(number), most.and_then(number));
                Statistics::Int64(ValueStatistics::new(least, most, None, nulls, false))
            }
            _ => {
                let text = |value: Stored| match value {
                    Stored::Text(text) => Some(ByteArray::from(text.into_bytes())),
                    Stored::Signed(_) | Stored::Small(_) | Stored::Large(_) => None,
                };
                let (least, most) = (least.and_then(text), most.and_then(text));
                Statistics::ByteArray(ValueStatistics::new(least, most, None, nulls, false))
            }
        }
    }
}

/// A page of rows without a value.
fn nulls_page(
    column: &ColumnDescPtr,
    rows: usize,
    encoding: Encoding,
    codec: &mut Codec,
) -> Result<Packed> {
    codec.raw.clear();
    if column.max_rep_level() > 0 {
        behind_length(&mut codec.raw, |out| encode::repeat(0, rows, 1, out));
    }
    if column.max_def_level() > 0 {
        let width = encode::width_of(column.max_def_level().unsigned_abs().into());
        behind_length(&mut codec.raw, |out| encode::repeat(0, rows, width, out));
    }
    match encoding {
        // Readers expect the width of the codes, or the head of the differences, even here.
        Encoding::RLE_DICTIONARY => codec.raw.push(1),
        Encoding::DELTA_BINARY_PACKED => encode::delta(&[], Widths::Tight, &mut codec.raw),
        _ => {}
    }
    let (raw, bytes) = (codec.raw.len(), codec.compress()?.to_vec());
    Ok(Packed { encoding, cells: rows, raw, bytes })
}

/// The levels of a list of values that are always there; an empty list is null.
fn list_levels(lengths: &[u32], there: i16, out: &mut Vec<u8>) -> usize {
    let there = u16::try_from(there).unwrap_or_default();
    let (mut repetitions, mut definitions) = (Vec::new(), Vec::new());
    let mut nulls = 0;
    for length in lengths {
        repetitions.push(0_u8);
        if *length == 0 {
            nulls += 1;
            definitions.push(0);
        } else {
            definitions.push(there);
        }
        for _ in 1..*length {
            repetitions.push(1);
            definitions.push(there);
        }
    }
    behind_length(out, |out| encode::hybrid(&repetitions, 1, out));
    let width = encode::width_of(there.into());
    behind_length(out, |out| encode::hybrid(&definitions, width, out));
    nulls
}

/// The width of the codes of a page, and the codes.
fn codes(codes: &[u16], out: &mut Vec<u8>) {
    let (least, most) =
        codes.iter().fold((u16::MAX, 0), |(least, most), code| (least.min(*code), most.max(*code)));
    let width = encode::width_of(most.into());
    out.extend(width.to_le_bytes().first());
    if least == most {
        encode::repeat(most.into(), codes.len(), width, out);
    } else {
        encode::hybrid(codes, width, out);
    }
}

/// What `write` appends, behind its length in four bytes.
fn behind_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    write(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// A value of a dictionary page.
fn append_plain(value: &Stored, out: &mut Vec<u8>) {
    match value {
        Stored::Signed(number) => out.extend(number.to_le_bytes()),
        Stored::Small(number) => out.extend(number.to_le_bytes()),
        Stored::Large(number) => out.extend(number.to_le_bytes()),
        Stored::Text(text) => behind_length(out, |out| out.extend(text.as_bytes())),
    }
}

fn count(values: usize) -> Result<u32> {
    u32::try_from(values).map_err(too_large)
}

fn too_large(error: std::num::TryFromIntError) -> ParquetError {
    ParquetError::External(Box::new(error))
}
