//! A trace read whole and sorted, for files that are not in order of arrival.

use crate::workload::trace::error::Fault;
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Extra, Row, Rows};

/// Rows in order of arrival with their rarer parts.
pub(crate) struct Sorted {
    rows: std::vec::IntoIter<(Row, Option<Box<Owned>>)>,
    last: Option<Box<Owned>>,
    classes: Vec<String>,
    warnings: Vec<ReadWarning>,
}

struct Owned {
    session: String,
    blocks: Vec<u64>,
    block_tokens: u32,
}

impl Sorted {
    /// Reads all rows; also hands back how many stood after a later one. A fault comes with the rows before it.
    pub(crate) fn read(from: &mut dyn Rows) -> Result<(Self, u64), (Fault, u64)> {
        let mut rows: Vec<(Row, Option<Box<Owned>>)> = Vec::new();
        let mut out_of_order = 0;
        let mut last = i128::MIN;
        loop {
            let row = from
                .next_row()
                .map_err(|fault| (fault, rows.len() as u64))?;
            let Some(row) = row else { break };
            if row.drop.is_none() {
                out_of_order += u64::from(row.at_ps < last);
                last = row.at_ps;
            }
            let extra = from.extra();
            let owned = (!extra.session.is_empty() || !extra.blocks.is_empty()).then(|| {
                Box::new(Owned {
                    session: extra.session.to_owned(),
                    blocks: extra.blocks.to_vec(),
                    block_tokens: extra.block_tokens,
                })
            });
            rows.push((row, owned));
        }
        rows.sort_by_key(|(row, _)| row.at_ps);
        let sorted = Self {
            rows: rows.into_iter(),
            last: None,
            classes: from.classes().to_vec(),
            warnings: from.warnings(),
        };
        Ok((sorted, out_of_order))
    }
}

impl Rows for Sorted {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some((row, owned)) = self.rows.next() else {
            return Ok(None);
        };
        self.last = owned;
        Ok(Some(row))
    }

    fn extra(&self) -> Extra<'_> {
        match &self.last {
            None => Extra::default(),
            Some(owned) => Extra {
                session: &owned.session,
                blocks: &owned.blocks,
                block_tokens: owned.block_tokens,
            },
        }
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        self.warnings.clone()
    }
}
