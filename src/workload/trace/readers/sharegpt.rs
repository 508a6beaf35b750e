//! ShareGPT JSON: an array of conversations, texts without times or token counts.
//!
//! As the load generators do, the first turn is the prompt and the second the answer; conversations of fewer turns are
//! dropped. Tokens are **estimated** from characters, and the report says so.

use serde::Deserialize;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::Objects;
use crate::workload::trace::report::{DropReason, ReadWarning};
use crate::workload::trace::row::{Row, Rows};
use crate::workload::trace::source::Input;

const EXPECTED: &str = "a conversation with `conversations`, a list of turns with `value`";

/// Characters per token when none are given: a rule of thumb for English text and the common tokenisers.
pub(crate) const CHARS_PER_TOKEN: f64 = 4.0;

/// Reads ShareGPT conversations; all arrive at once.
pub(crate) struct ShareGpt {
    objects: Objects,
    chars_per_token: f64,
}

#[derive(Deserialize)]
struct Record {
    #[serde(alias = "conversation")]
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    value: String,
}

impl ShareGpt {
    /// Starts at the first conversation.
    pub(crate) fn new(input: Input, chars_per_token: Option<f64>) -> Self {
        Self {
            objects: Objects::new(input),
            chars_per_token: chars_per_token.unwrap_or(CHARS_PER_TOKEN),
        }
    }

    fn estimate(&self, text: &str) -> u32 {
        let tokens = (text.chars().count() as f64 / self.chars_per_token).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float-to-int casts saturate, and no text is that long"
        )]
        let tokens = tokens as u32;
        tokens
    }
}

impl Rows for ShareGpt {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some(record) = self.objects.next::<Record>(EXPECTED)? else {
            return Ok(None);
        };
        let [prompt, answer, ..] = record.conversations.as_slice() else {
            return Ok(Some(Row {
                drop: Some(DropReason::NoAnswer),
                ..Row::default()
            }));
        };
        Ok(Some(Row {
            input_tokens: self.estimate(&prompt.value),
            output_tokens: self.estimate(&answer.value),
            ..Row::default()
        }))
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let chars_per_token = self.chars_per_token.to_string();
        vec![
            ReadWarning::NoTimes,
            ReadWarning::EstimatedTokens { chars_per_token },
        ]
    }
}
