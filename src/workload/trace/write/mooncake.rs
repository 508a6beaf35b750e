//! Mooncake JSONL: whole milliseconds, 512-token blocks; `session_id` is AIPerf's addition.

use std::io::{self, Write};

use super::{Line, Losses, Writer};
use crate::units::PS_PER_S;

/// Tokens of a block of `hash_ids`.
const BLOCK_TOKENS: u32 = 512;

/// Writes Mooncake JSONL.
pub(super) struct Mooncake<'a> {
    out: io::BufWriter<&'a mut dyn Write>,
}

impl<'a> Mooncake<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out: io::BufWriter::new(out),
        }
    }
}

impl Writer for Mooncake<'_> {
    fn line(&mut self, line: &Line<'_>, losses: &mut Losses) -> io::Result<()> {
        const MS: u64 = PS_PER_S / 1000;
        let ps = line.arrival.as_ps();
        losses.rounded_times += u64::from(!ps.is_multiple_of(MS));
        losses.classes += u64::from(!line.class.is_empty());
        let known = line.block_tokens == BLOCK_TOKENS;
        losses.blocks += u64::from(!known && !line.blocks.is_empty());
        let blocks = if known { line.blocks } else { &[] };
        write!(
            self.out,
            r#"{{"timestamp": {}, "input_length": {}, "output_length": {}, "hash_ids": {blocks:?}"#,
            (ps + MS / 2) / MS,
            line.input_tokens,
            line.output_tokens
        )?;
        if !line.session.is_empty() {
            write!(
                self.out,
                r#", "session_id": {}"#,
                serde_json::Value::from(line.session)
            )?;
        }
        writeln!(self.out, "}}")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
