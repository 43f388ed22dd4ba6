//! Where the fields of a tracepoint's samples lie, read from the kernel's `format` text.

/// The layout of one tracepoint.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) name: String,
    pub(crate) id: u16,
    fields: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    name: String,
    offset: usize,
    size: usize,
}

impl Layout {
    /// Stops the test when the text is no format.
    #[track_caller]
    pub(crate) fn read(text: &str) -> Self {
        let header = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value.map_or_else(|| panic!("a format without {key}"), str::trim)
        };
        let id = header("ID:").parse().expect("the test gives a number that fits");
        let fields = text.lines().filter_map(|line| place(line.trim())).collect();
        Self { name: header("name:").to_owned(), id, fields }
    }

    /// A sample of which only the id is set.
    pub(crate) fn blank(&self) -> Vec<u8> {
        let size = self.fields.iter().map(|place| place.offset + place.size).max().unwrap_or(8);
        let mut raw = vec![0; size];
        self.number(&mut raw, "common_type", u64::from(self.id));
        raw
    }

    /// Sets a field, little-endian; nothing happens when the tracepoint has none of that name.
    pub(crate) fn number(&self, raw: &mut [u8], name: &str, value: u64) {
        self.bytes(raw, name, &value.to_le_bytes());
    }

    /// Sets the start of a field.
    pub(crate) fn bytes(&self, raw: &mut [u8], name: &str, value: &[u8]) {
        if let Some(place) = self.fields.iter().find(|place| place.name == name) {
            let size = place.size.min(value.len());
            raw[place.offset..place.offset + size].copy_from_slice(&value[..size]);
        }
    }
}

fn place(line: &str) -> Option<Place> {
    let mut parts = line.strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?.split_whitespace().next_back()?;
    let name = declared.split('[').next()?.to_owned();
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some(Place { name, offset, size })
}
