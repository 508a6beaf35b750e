//! pdsim CSV.

use std::io::{self, Write};

use super::{Has, Line, Losses, Writer, seconds};

/// Writes pdsim CSV, with the rarer columns that the trace has.
pub(super) struct CsvWriter<'a> {
    out: csv::Writer<&'a mut dyn Write>,
    has: Has,
}

impl<'a> CsvWriter<'a> {
    /// Writes the header.
    pub(super) fn new(out: &'a mut dyn Write, has: Has) -> io::Result<Self> {
        let mut writer = Self {
            out: csv::Writer::from_writer(out),
            has,
        };
        let header = writer.fields(
            ["arrival_s", "input_tokens", "output_tokens"],
            "max_output",
            "class",
            "session",
        );
        writer.out.write_record(header).map_err(io::Error::other)?;
        Ok(writer)
    }

    fn fields<'b>(
        &self,
        first: [&'b str; 3],
        max_output: &'b str,
        class: &'b str,
        session: &'b str,
    ) -> impl Iterator<Item = &'b str> + use<'b> {
        let rare = [
            (self.has.max_output, max_output),
            (self.has.class, class),
            (self.has.session, session),
        ];
        let rare = rare
            .into_iter()
            .filter(|(there, _)| *there)
            .map(|(_, field)| field);
        first.into_iter().chain(rare)
    }
}

impl Writer for CsvWriter<'_> {
    fn line(&mut self, line: &Line<'_>, losses: &mut Losses) -> io::Result<()> {
        losses.blocks += u64::from(!line.blocks.is_empty());
        let (at, input) = (seconds(line.arrival), line.input_tokens.to_string());
        let (output, max) = (line.output_tokens.to_string(), line.max_output.to_string());
        let fields = self.fields([&at, &input, &output], &max, line.class, line.session);
        self.out.write_record(fields).map_err(io::Error::other)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
