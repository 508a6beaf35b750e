//! One record per request, in order of arrival, without the copies of a growing vector.

use crate::cluster::RequestRecord;

/// Records per chunk.
const CHUNK: usize = 4096;

/// Records of requests by id. Memory is 112 bytes per request, in chunks that never move.
#[derive(Debug, Clone, Default)]
pub struct Records {
    chunks: Vec<Vec<Option<RequestRecord>>>,
    len: usize,
}

// Holds the documentation to its word.
const _: () = assert!(size_of::<Option<RequestRecord>>() <= 112);

impl Records {
    /// Files a record under its id.
    pub fn push(&mut self, record: &RequestRecord) {
        let (chunk, row) = (record.id.index() / CHUNK, record.id.index() % CHUNK);
        while self.chunks.len() <= chunk {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let rows = &mut self.chunks[chunk];
        if rows.len() <= row {
            rows.resize(row + 1, None);
        }
        if rows[row].replace(*record).is_none() {
            self.len += 1;
        }
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The records in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &RequestRecord> {
        self.chunks.iter().flatten().flatten()
    }
}
