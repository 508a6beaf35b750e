//! pdsim JSONL, which loses nothing.

use std::io::{self, Write};

use super::{Line, Losses, Writer, seconds};

/// Writes pdsim JSONL.
pub(super) struct Jsonl<'a> {
    out: io::BufWriter<&'a mut dyn Write>,
}

impl<'a> Jsonl<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out: io::BufWriter::new(out),
        }
    }
}

impl Writer for Jsonl<'_> {
    fn line(&mut self, line: &Line<'_>, _: &mut Losses) -> io::Result<()> {
        let out = &mut self.out;
        // Written by hand so that the time keeps all its digits.
        write!(
            out,
            r#"{{"arrival_s": {}, "input_tokens": {}, "output_tokens": {}"#,
            seconds(line.arrival),
            line.input_tokens,
            line.output_tokens
        )?;
        if line.max_output > 0 {
            write!(out, r#", "max_output": {}"#, line.max_output)?;
        }
        for (key, text) in [("class", line.class), ("session", line.session)] {
            if !text.is_empty() {
                write!(out, r#", "{key}": {}"#, serde_json::Value::from(text))?;
            }
        }
        if !line.blocks.is_empty() {
            write!(
                out,
                r#", "block_tokens": {}, "blocks": {:?}"#,
                line.block_tokens, line.blocks
            )?;
        }
        writeln!(out, "}}")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
